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
