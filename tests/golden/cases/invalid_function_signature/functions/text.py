from penstock.functions import STRING


def initials(name, *, sep: STRING = ".") -> STRNG:
    return name
