from penstock.functions import STRING


def initials(name: STRING) -> STRING:
    return name


def lower(name: STRING) -> STRING:
    return name


def Initials(name: STRING) -> STRING:
    return name
