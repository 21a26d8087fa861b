"""VGG16 and MobileNet v1 from their layer lists, for ``roofline trace``."""

from torch import nn


def vgg16():
    """Simonyan and Zisserman, arXiv:1409.1556, configuration D."""
    layers, channels = [], 3
    for item in (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"):
        if item == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, item, 3, padding=1), nn.ReLU()]
            channels = item
    head = [nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


def _block(cin, cout, kernel=3, stride=1, groups=1):
    convolution = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(cout), nn.ReLU()]


def mobilenet():
    """Howard et al., arXiv:1704.04861, table 1; for inference."""
    layers = _block(3, 32, stride=2)
    pairs = ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2))
    for cin, cout, stride in (*pairs, *((512, 512, 1),) * 5, (512, 1024, 2), (1024, 1024, 1)):
        layers += [*_block(cin, cin, stride=stride, groups=cin), *_block(cin, cout, kernel=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000)).eval()


def intensities(model, traced):
    """Operations per byte of fp32 under the article's two rules, in MAC/B, and under three of ours, in FLOP/B.

    one write       all weights, and one write of the output of each convolution and linear layer
    three writes    and one of the output of each norm and activation
    layer by layer  every layer reads its input and weights and writes its output; norm and activation are in it
    end to end      all weights, the image and the scores
    """
    weights = 4 * sum(parameter.numel() for parameter in model.parameters())

    def written(*kinds):
        return sum(tensor.traffic_bytes for op in traced.ops if op.kind in kinds for tensor in op.writes)

    once = weights + written("convolution", "contraction")
    ends = 4 * (3 * 224 * 224 + 1000)
    return {
        "article, one write": traced.macs() / once,
        "article, three writes": traced.macs() / (once + written("norm", "elementwise")),
        "one write": traced.flops() / once,
        "layer by layer": traced.intensity("fused"),
        "end to end": traced.flops() / (weights + ends),
    }
