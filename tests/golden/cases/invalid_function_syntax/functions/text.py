from penstock.functions import STRING


def initials(name: STRING) -> STRING
    return name
