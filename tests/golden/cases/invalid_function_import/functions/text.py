from functions.names import split
from penstock.functions import STRING

from .nams import join


def initials(name: STRING) -> STRING:
    return join(split(name))
