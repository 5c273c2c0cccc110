import torch,numpy as np,json
rng=np.random.default_rng(0)
N,T,C,U=7,12,5,5
x=rng.normal(size=(N,T,C))*2
lab=rng.integers(1,C,(N,U)); lab[1]=[2,2,2,3,3]; lab[4]=2
tl=[12,12,7,3,12,0,9]; ul=[5,5,3,4,5,0,0]
tl[3]=3; ul[3]=4
out={}
def run(zero,red,blank=0,lab=lab):
    xt=torch.tensor(x,requires_grad=True)
    l=torch.nn.functional.ctc_loss(xt.log_softmax(-1).transpose(0,1),torch.tensor(lab),tl,ul,blank=blank,reduction=red,zero_infinity=zero)
    l.sum().backward(); return l.detach().numpy(),xt.grad.numpy()
l,d=run(False,"none"); lz,dz=run(True,"none"); m,dm=run(True,"mean")
lb,db=run(True,"sum",4,lab-1)
print(l,lz,m)
np.savez("/work/wt-sequences/tests/data/torch_ctc.npz",logits=x,labels=lab,input_lengths=tl,label_lengths=ul,losses=l,zeroed=lz,d_zeroed=dz,mean=m,d_mean=dm,last_blank=lb,d_last_blank=db)
