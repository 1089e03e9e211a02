"""Writer and reader of the shared map under ThreadSanitizer, and as a program for arm64 in qemu:
the unit tests of the writer, with readers in threads and in another process, and the same with a
reader that is spoilt, which has to fail."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
READER, WRITER = "lib/shared/read.c", "agent/shared/map.c"
PARTS = """tests/unit/agent/shared/test_map.c tests/support/one_test.c tests/support/all_tests.c
    agent/base/allocate.c agent/base/log.c lib/program/log_rate.c lib/program/log_writer.c
    lib/shared/hash.c lib/base/buffer.c lib/base/child.c lib/base/close_files.c lib/base/err.c
    lib/base/json_visible.c lib/base/random_bytes.c lib/base/text.c lib/base/utf8.c""".split()
ARM_COMPILER, ARM = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
PATIENCE = 300


class SharedMemory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def copy(self, source, changes):
        """The source with other texts, each of which is there once."""
        text = (SOURCE / source).read_text()
        for before, after in changes.items():
            self.assertEqual(text.count(before), 1, before)
            text = text.replace(before, after)
        copy = self.folder / pathlib.Path(source).name
        copy.write_text(text)
        return copy

    def build(self, *compiler, reader, writer):
        program = self.folder / "program"
        subprocess.run([*compiler, "-std=gnu11", "-D_GNU_SOURCE", "-w", "-O2", "-iquote", SOURCE,
            "-o", program, *(SOURCE / part for part in PARTS), self.copy(READER, reader),
            self.copy(WRITER, writer)], check=True, timeout=PATIENCE)
        return program

    def run_tests(self, tests, *command):
        return subprocess.run([*command, "--filter", f"shared_map/{tests}"], capture_output=True,
            text=True, check=False, timeout=PATIENCE, cwd=self.folder,
            env={**os.environ, "TSAN_OPTIONS": ""})  # a race that is to be found is no failure


class Threads(SharedMemory):
    """The sanitizer knows memory by its address: the reader gets the writer's mapping, not another
    one of the same file."""

    READER = {"mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0)": "writers_memory",
        "munmap((void *)(uintptr_t)map->words, map->size);": "",
        "\nenum { TRIES": "\nextern void *writers_memory;\nenum { TRIES"}
    WRITER = {"map->words = memory;": "map->words = writers_memory = memory;",
        "\ntypedef _Atomic": "\nvoid *writers_memory;\ntypedef _Atomic"}

    def read_with(self, **changes):
        program = self.build("gcc", "-g", "-fsanitize=thread", reader={**self.READER, **changes},
            writer=self.WRITER)
        return self.run_tests("threads_never_read_half_a_change", program)

    def test_no_data_race(self):
        result = self.read_with()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertNotIn("data race", result.stdout + result.stderr)

    def test_a_reader_without_atomic_loads_is_found(self):
        result = self.read_with(**{"return atomic_load_explicit(word, memory_order_relaxed);":
            "return *(const uint64_t *)word;"})
        self.assertIn("data race", result.stdout + result.stderr)


@unittest.skipUnless(shutil.which(ARM_COMPILER), f"no {ARM_COMPILER}")
@unittest.skipUnless(shutil.which(ARM), f"no {ARM}")
class Arm64(SharedMemory):
    def read_with(self, **changes):
        program = self.build(ARM_COMPILER, "-static", "-idirafter", "/usr/include", reader=changes,
            writer={})
        return self.run_tests("*never_read*", ARM, program)

    def test_no_torn_reading(self):
        result = self.read_with()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_reader_without_the_second_look_at_the_sequence_is_found(self):
        result = self.read_with(**{
            "return load(&slot[SHARED_S_SEQUENCE]) == sequence ? look : LOOK_TORN;":
            "return look;"})
        self.assertNotEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
