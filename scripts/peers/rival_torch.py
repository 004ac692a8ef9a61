"""PyTorch: eager, and compiled where that works; fused Adam; the data in memory, a batch is one index_select."""
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from peers.nets import Shuffle, make_weights, steps_of_a_chunk

VERSIONS = {"torch": torch.__version__}
EAGER, COMPILED = "eager", "torch.compile"

torch.set_num_threads(1)
torch.set_num_interop_threads(1)
torch.set_flush_denormal(True)
warnings.filterwarnings("ignore")


class Network(nn.Module):
    def __init__(self, net):
        super().__init__()
        rows, channels, parts = net.length, net.channels, []
        for filters, taps, padding in net.convs:
            parts.append(nn.Conv1d(channels, filters, taps, padding=padding))
            parts.append(nn.ReLU() if net.activation == "relu" else nn.SiLU())
            rows, channels = rows - (taps - 1 if padding == "valid" else 0), filters
        if net.pool > 1:
            parts.append(nn.MaxPool1d(net.pool))
        parts.append(nn.Flatten())
        self.rows, self.channels = rows // net.pool, channels
        width = self.rows * channels
        for units in net.hidden:
            parts += [nn.Linear(width, units), nn.ReLU()]
            width = units
        parts.append(nn.Linear(width, net.classes))
        self.parts = nn.Sequential(*parts)

    def forward(self, x):
        return self.parts(x)

    def load(self, net):
        """Keras has channels last, so kernels are transposed and the rows behind the flatten reordered."""
        weights = make_weights(net)
        first = 2 * len(net.convs)
        turned = weights[first].reshape(self.rows, self.channels, -1).transpose(1, 0, 2)
        weights[first] = turned.reshape(self.rows * self.channels, -1)
        with torch.no_grad():
            for parameter, w in zip(self.parameters(), weights):
                order = tuple(range(w.ndim))[::-1]
                parameter.copy_(torch.from_numpy(np.ascontiguousarray(w.transpose(order))))


class Rival:
    def __init__(self, net, data):
        self.net = net
        series = torch.from_numpy(data.series)
        self.x = series.unfold(0, net.length, 1)  # a view: [examples, length]
        if net.letters:
            self.x = F.one_hot(self.x.long(), net.channels).float().transpose(1, 2).contiguous()
        self.labels = torch.from_numpy(data.labels).long()
        self.evaluated = torch.from_numpy(data.evaluated)

    def ways(self, batch):
        return [EAGER, COMPILED]

    def start(self, name, batch):
        return Run(self, name, batch)

    def batch(self, index):
        x = self.x.index_select(0, index)
        return (x if self.net.letters else x.unsqueeze(1)), self.labels.index_select(0, index)


class Run:
    def __init__(self, rival, name, batch):
        self.rival, self.size = rival, batch
        self.network = Network(rival.net)
        self.network.load(rival.net)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3, eps=1e-7, fused=True)
        self.steps, self.shuffle = steps_of_a_chunk(rival.net, batch), Shuffle(rival.net)
        network = self.network
        self.forward = lambda x, y: F.cross_entropy(network(x), y)
        if name == COMPILED:
            torch._dynamo.reset()  # else the ninth network would silently run eagerly
            self.forward = torch.compile(self.forward, dynamic=False)

    def deal(self):
        return torch.from_numpy(self.shuffle.take(self.steps, self.size))

    def chunk(self, starts):
        for index in starts:
            x, y = self.rival.batch(index)
            self.optimizer.zero_grad(set_to_none=True)
            self.forward(x, y).backward()
            self.optimizer.step()

    def parameters(self):
        return sum(p.numel() for p in self.network.parameters())

    def loss(self):
        with torch.no_grad():
            x, y = self.rival.batch(self.rival.evaluated)
            return float(F.cross_entropy(self.network(x), y))
