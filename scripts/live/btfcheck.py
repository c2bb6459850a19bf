#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# btfcheck.py VMLINUX_ELF: lists the scx kfuncs whose BTF prototype is wrong. Some kernels were built
# without applying KF_IMPLICIT_ARGS, so the hidden argument 'aux' is still in the prototypes, and every
# sched_ext object that calls such a kfunc is refused ("func_proto incompatible with vmlinux").
import sys, struct
d=open(sys.argv[1],'rb').read()
if d[:4]==b'\x7fELF':
    shoff,=struct.unpack_from('<Q',d,0x28); es,n,si=struct.unpack_from('<HHH',d,0x3a)
    secs=[struct.unpack_from('<IIQQQQIIQQ',d,shoff+i*es) for i in range(n)]
    st=secs[si][4]; nm=lambda o:d[st+o:d.index(b'\0',st+o)].decode()
    s=[x for x in secs if nm(x[0])=='.BTF'][0]; d=d[s[4]:s[4]+s[5]]
hl,to,tl,so,sl=struct.unpack_from('<IIIII',d,4)
str_=lambda o:d[hl+so+o:d.index(b'\0',hl+so+o)].decode()
p=hl+to; end=p+tl; i=0; funcs=[]; protos={}; tags=set(); enums={}; structs=set()
while p<end:
    i+=1; no,info,sz=struct.unpack_from('<III',d,p); p+=12; k=(info>>24)&31; v=info&0xffff
    if k==12: funcs.append((i,str_(no),sz))
    if k==13: protos[i]=[str_(struct.unpack_from('<II',d,p+8*j)[0]) for j in range(v)]
    if k==17:
        if str_(no)=='bpf_kfunc': tags.add(sz)
    if k==4: structs.add(str_(no))
    p+={1:4,3:12,4:12*v,5:12*v,6:8*v,13:8*v,14:4,15:12*v,17:4,19:12*v}.get(k,0)
names={f[1] for f in funcs}
k=[f for f in funcs if ('scx_bpf_' in f[1] or f[1].startswith('bpf_iter_scx')) ]
bad=sorted(f[1] for f in k if protos[f[2]] and protos[f[2]][-1]=='aux' and not f[1].endswith('_impl'))
impl=[f for f in k if f[1].endswith('_impl')]
print(f"sched_ext_ops={'sched_ext_ops' in structs} sched_ext_ops_cid={'sched_ext_ops_cid' in structs} scx kfuncs={len(k)-len(impl)} with_impl={len(impl)} BROKEN={len(bad)}", ' '.join(bad))
