"""StepUpdates: what optimizers do in the training step that is being built.

`minimize` differentiates a loss and adds an optimizer's update, with accumulation over batches, loss scaling, moving
averages, and, in distributed training, sums over all processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._core import DType, Operation, Tensor, float32, float64
from ..distributed.partnership import Partnership
from ..distributed.weighing import Weighing, in_order, weight_of_batch
from ..errors import GraphError
from ..nn.module import Module
from ..nn.parts import adopt
from ..optim import LossScaling, Optimizer
from ..optim.optimizers import innermost
from .gradient_sums import GradientSums
from .network import Network
from .settings import Settings
from .state import TrainingState
from .step import Built, Minimized
from .structure import leaves


class StepUpdates:
    """The updates of a training step that is being built.

    Args:
        settings: The trainer's settings.
        state: The state that the step changes.
        network: The model.
        built: The step. Its `minimized` and `weighings` are extended.
    """

    def __init__(self, settings: Settings, state: TrainingState, network: Network, built: Built) -> None:
        self.settings, self.state, self.network, self.built = settings, state, network, built
        self._averages_frozen = False  # Whether the averages of frozen parameters are updated.

    def minimize(
        self,
        loss: Tensor,
        parameters: Sequence[Tensor] | None,
        optimizer: Optimizer | None,
        buffers_before: Mapping[Tensor, Tensor],
    ) -> None:
        """Add an optimizer's update; see Trainer.minimize.

        Args:
            loss: Tensor of rank 0.
            parameters: Variables to update, or None for all.
            optimizer: Optimizer to use, or None for the trainer's.
            buffers_before: The buffers' values from before the step, which a step that overflows restores.
        """
        settings, state, built, g = self.settings, self.state, self.built, self.state.graph
        optimizer = optimizer or settings.optimizer
        if any(made.optimizer is optimizer for made in built.minimized):
            raise GraphError(
                "Trainer.minimize: an optimizer can make only one update in a step, because it counts updates: pass "
                "another one, such as optimizer.with_options()"
            )
        if isinstance(settings.model, Module):
            adopt(settings.model, g)
        optimizer.know_paths({v: path for path, v in self.network.named_variables().items()})
        free = [v for _, v in self.network.named_parameters() if not optimizer.freezes(v)]
        chosen = None if parameters is None else set(parameters)
        variables = [v for v in free if chosen is None or v in chosen]
        if not variables:
            raise GraphError("there is nothing to train: the model has no parameters, or all of them are frozen")
        if settings.low_precision_weights is not None:
            for each in innermost(optimizer):
                each.low_precision_weights = settings.low_precision_weights
        rate = state.rate_for(optimizer)
        scaling = state.scaling_of(optimizer) if settings.precision == "float16" else None
        start = None if scaling is None else scaling.start(g)
        weighing = None if state.partnership is None else self._weighing(state.partnership)
        seed = start if weighing is None else weighing.seed(loss, start)
        gradients = g.gradients(loss, variables, start=seed, unconnected="error")
        if weighing is not None:
            gradients = in_order(gradients)
        made = Minimized(optimizer, rate, [], scale=start)
        emptying: list[Operation] = []
        whole = None
        if state.accumulation > 1:
            # The trainer's optimizer may be replaced while gradients are accumulated. Each call of `minimize` in a step
            # has its own sums and weight.
            key = None if optimizer is settings.optimizer else optimizer, len(built.minimized)
            sums = state.sums.setdefault(key, GradientSums())
            weight, factor = self._weight_of_batch(weighing)
            gradients, whole, made.accumulating, emptying = sums.add(g, gradients, weight, factor)
            emptying += sums.emptying(g, [v for v in sums.sums if v not in set(free)])
        if weighing is not None:
            gradients = weighing.summed(gradients)
        if whole is not None:
            gradients = {
                v: g.division_no_nan(d, whole if d.dtype == whole.dtype else g.cast(whole, d.dtype))
                for v, d in gradients.items()
            }
        elif weighing is not None:
            gradients = weighing.normalized(gradients)
        if scaling is None:
            made.updates = optimizer.updates(gradients, rate)
        else:
            made.updates = scaling.updates(gradients, rate, buffers_before)
            if made.accumulating:
                made.accumulating += self._restored(scaling, gradients, buffers_before)
        made.updates += emptying
        if settings.ema_decay is not None:
            made.updates += state.averaging(variables, settings.ema_decay)
            made.updates += state.averaging(self._frozen_averages(optimizer), settings.ema_decay, begin=False)
        built.minimized.append(made)

    def _frozen_averages(self, optimizer: Optimizer) -> list[Tensor]:
        """Return, once for each build, the frozen parameters whose moving averages still approach the weights."""
        averages = self.state.averages
        if not averages or self._averages_frozen:
            return []
        self._averages_frozen = True
        freeze = {self.settings.optimizer, optimizer}
        trained = {v for _, v in self.network.named_parameters() if not all(each.freezes(v) for each in freeze)}
        return [v for v in self.network.named_variables().values() if v in averages and v not in trained]

    def _restored(
        self, scaling: LossScaling, gradients: Mapping[Tensor, Tensor], before: Mapping[Tensor, Tensor]
    ) -> list[Operation]:
        """Return operations that restore the buffers' values from before the step if any gradient has overflowed.

        They run in steps that only accumulate gradients.
        """
        g = self.state.graph
        finite = g.equal(scaling.not_finite(gradients), 0.0)
        return [g.assign(buffer, g.select(finite, g.read(buffer), old)) for buffer, old in before.items()]

    # --- weights of batches -------------------------------------------------------------------------------------------

    @property
    def _counted(self) -> tuple[Tensor, Tensor] | None:
        """The number of labels that the loss counts, and the labels, if the loss ignores some."""
        counted, labels = self.built.counted, self.built.labels
        return (counted, labels) if counted is not None and isinstance(labels, Tensor) else None

    @property
    def _wide(self) -> DType:
        return float64 if self.settings.dtype == float64 else float32

    def _weight_of_batch(self, weighing: Weighing | None) -> tuple[Tensor, Tensor | float]:
        """Return a batch's weight in an accumulation, over all processes, and the factor for the batch's gradients.

        The weight is the number of samples times the fraction of labels that count. In distributed training, gradients
        are already multiplied by the weight relative to the reference number of samples, so the factor is that number;
        otherwise, the factor is the weight.
        """
        if weighing is not None and self.state.partnership is not None:
            reference = float(self.state.partnership.reference_samples)
            return weighing.total_weight() * reference, reference
        samples = leaves(self.built.inputs)[0]
        weight = weight_of_batch(self.state.graph, samples, self._wide, 1, self._counted)
        return weight, weight

    # --- distributed training -----------------------------------------------------------------------------------------

    def _weighing(self, partnership: Partnership) -> Weighing:
        """Create the object that adds an optimizer's communication with other processes."""
        built = self.built
        name = f"optimizer {len(built.weighings)}" if built.weighings else "optimizer"
        # Results that count something other than what the loss counts are weighted separately, by samples.
        alike = {term.name for term in built.terms if term.counted is built.counted}
        results = {} if built.weighings else {name: built.results[name] for name in built.results if name in alike}
        return self._add_weighing(partnership, name, self._counted, results, self.network.buffers())

    def _add_weighing(
        self,
        partnership: Partnership,
        name: str,
        counted: tuple[Tensor, Tensor] | None,
        results: Mapping[str, Tensor],
        buffers: Sequence[Tensor],
    ) -> Weighing:
        graph, samples = self.state.graph, leaves(self.built.inputs)[0]
        made = partnership.weighing(graph, name, samples, self._wide, counted, results, buffers)
        self.built.weighings.append(made)
        return made

    def means(self, reported: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the results of the step as means, and set their counts to the sums, over all processes."""
        built, partnership = self.built, self.state.partnership
        if partnership is None:
            return reported
        known = {number for weighing in built.weighings for number in weighing.averages}
        rest = {name: value for name, value in reported.items() if id(value) not in known}
        if rest:
            self._add_weighing(partnership, "reported", None, rest, []).hear()
        means = {number: (mean, w) for w in built.weighings for number, mean in w.averages.items()}
        built.counts = {name: means[id(value)][1].total_weight() for name, value in reported.items()}
        built.shares = {}
        return {name: means[id(value)][0] for name, value in reported.items()}
