"""The parts of the self-test: each module's checks(options) lists what is done."""
