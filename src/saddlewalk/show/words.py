"""Words that carry their sentence: an enumeration whose members are short in data and clear in print."""

from enum import StrEnum


class Word(StrEnum):
    """A member is its short word; `sentence` says what it means and what to do about it."""

    sentence: str

    def __new__(cls, word: str, sentence: str = "") -> "Word":
        """A word, and the sentence behind it (the word itself where it says enough)."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.sentence = sentence or word
        return member
