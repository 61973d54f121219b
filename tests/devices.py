"""Devices that run the GPU's kernels here: the emulator, and a card if there is one."""

from emulator.device import Emulator
from emulator.device import why_missing as no_emulator
from hdsl.cuda.runtime import DeviceError, get_device

DEVICES = {}
if no_emulator is None:
    DEVICES["emulator"] = Emulator()
try:
    DEVICES["card"] = get_device("cuda")
except DeviceError as error:
    no_card = str(error)
else:
    no_card = None
