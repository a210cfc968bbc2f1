"""Ranks that fit one line together: each has points of its own, and gradients are averaged."""

import argparse

import torch
from torch import distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--master", required=True, help="HOST:PORT of rank 0")
parser.add_argument("--rank", type=int, required=True)
parser.add_argument("--world-size", type=int, required=True)
given = parser.parse_args()

dist.init_process_group(
    "gloo", init_method=f"tcp://{given.master}", rank=given.rank, world_size=given.world_size
)
torch.manual_seed(given.rank)
x = torch.rand(1000)
y = 3 * x + 1 + 0.1 * torch.randn(1000)
line = torch.zeros(2, requires_grad=True)
for step in range(1, 201):
    loss = ((line[0] * x + line[1] - y) ** 2).mean()
    (gradient,) = torch.autograd.grad(loss, line)
    dist.all_reduce(gradient)
    with torch.no_grad():
        line -= 0.5 * gradient / given.world_size
    if step % 10 == 0:
        print(f"step={step} loss={loss.item():.4f}", flush=True)
print(f'fedtest-value {{"name": "loss", "value": {loss.item()}}}', flush=True)
dist.barrier()  # rank 0 has the store, which the others need until here
dist.destroy_process_group()
