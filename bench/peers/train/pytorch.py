"""A LoRA step of a Llama in plain PyTorch: the peer of `ingot bench --train`.

Takes one JSON object as its argument: width, layers, heads, kvHeads, hidden, vocabulary, tokens, rank, steps, recompute, threads.
Prints one JSON object: seconds of each step, the loss of the last, bytes of memory at most, and what multiplies matrices here.
"""

import json
import math
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Lora(nn.Module):
    """A linear layer that is frozen, and a change of low rank that learns."""

    def __init__(self, inner, out, rank):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, inner) * 0.02, requires_grad=False)
        self.a = nn.Parameter(torch.empty(rank, inner).uniform_(-1, 1) / math.sqrt(inner))
        self.b = nn.Parameter(torch.zeros(out, rank))
        self.scale = 2.0

    def forward(self, x):
        return F.linear(x, self.weight) + self.scale * F.linear(F.linear(x, self.a), self.b)


def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def turn(x, cos, sin):
    """Rotary positions: x [heads, n, dim]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        width, dim = o["width"], o["width"] // o["heads"]
        self.heads, self.shared, self.dim = o["heads"], o["heads"] // o["kvHeads"], dim
        self.first, self.second = (nn.Parameter(torch.ones(width), requires_grad=False) for _ in range(2))
        self.q = Lora(width, width, o["rank"])
        self.k, self.v = (Lora(width, o["kvHeads"] * dim, o["rank"]) for _ in range(2))
        self.out = Lora(width, width, o["rank"])
        self.gate, self.up = (Lora(width, o["hidden"], o["rank"]) for _ in range(2))
        self.down = Lora(o["hidden"], width, o["rank"])

    def forward(self, x, cos, sin, mask):
        n, h = x.shape[0], norm(x, self.first)
        q, k, v = (f(h).view(n, -1, self.dim).transpose(0, 1) for f in (self.q, self.k, self.v))
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        k, v = (each.repeat_interleave(self.shared, 0) for each in (k, v))
        weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(self.dim) + mask, -1)
        x = x + self.out((weights @ v).transpose(0, 1).reshape(n, -1))
        h = norm(x, self.second)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.recompute = o["recompute"]
        self.embedding = nn.Parameter(torch.randn(o["vocabulary"], o["width"]) * 0.02, requires_grad=False)
        self.layers = nn.ModuleList(Layer(o) for _ in range(o["layers"]))
        self.norm = nn.Parameter(torch.ones(o["width"]), requires_grad=False)
        self.output = nn.Parameter(torch.randn(o["vocabulary"], o["width"]) * 0.02, requires_grad=False)
        n, dim = o["tokens"], o["width"] // o["heads"]
        angles = torch.arange(n)[:, None] * 10000 ** (-torch.arange(0, dim, 2) / dim)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.mask = torch.full((n, n), -math.inf).triu(1)

    def forward(self, ids):
        x = self.embedding[ids].requires_grad_()
        for layer in self.layers:
            x = checkpoint(layer, x, self.cos, self.sin, self.mask) if self.recompute else layer(x, self.cos, self.sin, self.mask)
        return F.linear(norm(x, self.norm), self.output)


def main():
    o = json.loads(sys.argv[1])
    torch.set_num_threads(o["threads"])
    torch.manual_seed(1)
    model = Llama(o)
    learning = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=1e-4, weight_decay=0.01)
    ids = torch.randint(0, o["vocabulary"], (o["tokens"] + 1,))
    seconds = []
    for _ in range(o["steps"]):
        begun = time.perf_counter()
        loss = F.cross_entropy(model(ids[:-1]), ids[1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - begun)
    bytes_at_most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps({"version": torch.__version__, "seconds": seconds, "loss": loss.item(), "bytes": bytes_at_most}))


main()
