"""What a disk must contain, beside which tests of NBD and NVMe put each answer.

A block of which nobody knows whether a write was carried out (its client was cut off) may have
several contents; what a later read finds is what it has from then on."""

import threading


class Disk:
    def __init__(self, size, block):
        self.block = block  # bytes that a write changes whole, or not at all
        self.content = bytearray(size)
        self.loose = {}  # block: the contents that it may have, the first of which is in self.content
        self.flying = {}  # request: (offset, end, does it write?)
        self.lock = threading.RLock()

    # ---- Requests in flight: none overlaps with a write, so that each answer is certain

    def begin(self, request, offset, length, writes):
        """False: another one is in the way."""
        with self.lock:
            if any((writes or wrote) and offset < end and begin < offset + length
                   for begin, end, wrote in self.flying.values()):
                return False
            self.flying[request] = (offset, offset + length, writes)
            return True

    def end(self, request):
        with self.lock:
            del self.flying[request]

    # ---- Content

    def _blocks(self, offset, length):
        """(block, begin, end) of each block of a range: bytes of the disk."""
        for block in range(offset // self.block, (offset + length + self.block - 1) // self.block):
            yield block, max(offset, block * self.block), min(offset + length, (block + 1) * self.block)

    def _settle(self, block, contents):
        contents = list(dict.fromkeys(contents))
        self.content[block * self.block:block * self.block + len(contents[0])] = contents[0]
        self.loose[block] = contents
        if len(contents) == 1:
            del self.loose[block]

    def _variants(self, block):
        return self.loose.get(block) or [bytes(self.content[block * self.block:(block + 1) * self.block])]

    def write(self, offset, data, certain=True):
        """It was written; if that is not certain, each block of it was or was not."""
        with self.lock:
            if certain and not self.loose:
                self.content[offset:offset + len(data)] = data
                return
            for block, begin, end in self._blocks(offset, len(data)):
                old = self._variants(block)
                at, piece = begin - block * self.block, data[begin - offset:end - offset]
                new = [b"".join((state[:at], piece, state[at + len(piece):])) for state in old]
                self._settle(block, new if certain else old + new)

    def check(self, offset, data):
        """It was read."""
        with self.lock:
            for block, begin, end in self._blocks(offset, len(data)) if self.loose else ():
                if block in self.loose:
                    piece, at = data[begin - offset:end - offset], begin - block * self.block
                    left = [state for state in self.loose[block] if state[at:at + len(piece)] == piece]
                    if left:
                        self._settle(block, left)
            if self.content[offset:offset + len(data)] != data:
                wrong = next(i for i, byte in enumerate(data) if byte != self.content[offset + i])
                raise AssertionError(f"read of {len(data)} at {offset}: wrong from its byte {wrong} on")
