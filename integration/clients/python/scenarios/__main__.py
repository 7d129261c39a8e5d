"""Plays one scenario: python3 -m scenarios NAME HOSTS ROOT. The transcript goes to stdout, all else to stderr."""

import faulthandler
import importlib
import logging
import sys

from . import stage

LONGEST = 90  # seconds, for a whole scenario


def main():
    name, hosts, root = sys.argv[1:]
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    scene = stage.Stage(hosts, root)
    importlib.import_module("scenarios." + name).play(scene)
    scene.close()


main()
