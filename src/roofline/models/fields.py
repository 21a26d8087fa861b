"""Fields: a configuration's entries, read by name and checked; entries that no reader has read are reported.

>>> fields = Fields({"model_type": "llama", "hidden_size": 64, "new_trick": 3}, "toy")
>>> fields.size("hidden_size")
64
>>> fields.size("vocab_size")
Traceback (most recent call last):
roofline.errors.InputError: toy has no vocab_size; a llama configuration needs it
>>> fields.unread()
['new_trick']
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from roofline.errors import InputError, check_one_of, quoted
from roofline.files import MOST_LAYERS, read_toml


@cache
def inert_fields(of: str) -> frozenset[str]:
    """Fields that change no cost: in configurations of ``every_type`` or of one type, or beside a ``vision`` tower."""
    lists = (words for types, words in _inert_file()["inert"].items() if of in types.split())
    return frozenset(word for words in lists for word in words.split())


@cache
def _inert_file() -> dict[str, Any]:
    return read_toml(os.path.join(os.path.dirname(__file__), "inert.toml"), "file of constants")


class Fields:
    """A configuration, and the fields that have been read."""

    def __init__(self, data: Mapping[str, Any], name: str) -> None:
        self._data, self._asked, self.name = data, set[str](), name
        self._own = frozenset(data)
        self.kind = str(data.get("model_type", ""))

    def __contains__(self, field: str) -> bool:
        self._asked.add(field)
        return self._data.get(field) is not None

    def get(self, field: str, default: Any = None) -> Any:
        """The field, or ``default`` where it is missing or null."""
        self._asked.add(field)
        value = self._data.get(field)
        return default if value is None else value

    def size(self, *names: str, default: int | None = None, most: int = 10**12) -> int:
        """A whole number of at least 1, under the first of the names that is there."""
        self._asked.update(names)
        for field in names:
            value = self._data.get(field)
            if value is not None:
                return self._whole(field, value, most)
        if default is None:
            raise InputError(f"{self.name} has no {names[0]}", hint=f"a {self.kind or 'model'} configuration needs it")
        return default

    def count(self, *names: str, most: int = 10**12) -> int:
        """A whole number of at least 0; 0 where the field is missing."""
        self._asked.update(names)
        found = next((self._data[field] for field in names if self._data.get(field) is not None), 0)
        return 0 if found == 0 and not isinstance(found, bool) else self.size(*names, most=most)

    def layers(self, *names: str, default: int | None = None) -> int:
        """A number of layers, which are made one by one: at least 1, or 0 where that is the default."""
        if default == 0:
            return self.count(*names, most=MOST_LAYERS)
        return self.size(*names, default=default, most=MOST_LAYERS)

    def optional(self, field: str, none: int | None = None) -> int | None:
        """A whole number of at least 1, None where it is missing, null or the number that stands for ``none``."""
        return self.size(field) if field in self and self._data[field] != none else None

    def fraction(self, field: str) -> float | None:
        """A fraction above 0 and up to 1, None where it is missing."""
        return self._above_zero(field, 1, "it is a fraction, above 0 and up to 1") if field in self else None

    def factor(self, field: str) -> float:
        """A number above 0 by which a size is multiplied."""
        return self._above_zero(field, 1e6, "it is a number above 0")

    def text(self, field: str) -> str:
        """A text, empty where it is missing."""
        value = self.get(field, "")
        if not isinstance(value, str):
            raise InputError(f"{field} of {self.name} is {quoted(value)}", hint="it is a text")
        return value

    def flag(self, field: str, default: bool = False) -> bool:
        """True or false."""
        value = self.get(field, default)
        if not isinstance(value, bool):
            raise InputError(f"{field} of {self.name} is {quoted(value)}", hint="it is true or false")
        return value

    def listed(self, field: str, length: int | None = None, *, nested: bool = False) -> list[Any] | None:
        """A list, of one entry a layer where ``length`` is given; None where it is missing.

        Entries are words, numbers or truths; only a ``nested`` list has lists and sections in it.
        """
        value = self.get(field)
        if value is None:
            return None
        if not isinstance(value, list):
            raise InputError(f"{field} of {self.name} is {quoted(value)}", hint="it is a list")
        odd = () if nested else [each for each in value if isinstance(each, list | dict) or not _is_finite(each)]
        if odd:
            raise InputError(f"{field} of {self.name} lists {quoted(odd[0])}", hint="a list of words or numbers")
        if length is not None and len(value) < length:
            wrong = f"{field} of {self.name} lists {len(value)} layers and num_hidden_layers says {length}"
            raise InputError(wrong, hint="the two contradict each other")
        return value

    def sizes(self, field: str, layers: int, default: int | None = None) -> list[int]:
        """A size of each layer: listed, or one for all."""
        found = self.listed(field, layers) if isinstance(self.get(field), list) else [self.get(field, default)] * layers
        return [self.with_values(**{field: each}).size(field) for each in (found or [])[:layers]]

    def section(self, field: str) -> Fields | None:
        """A part of the configuration with fields of its own, None where it is missing."""
        value = self.get(field)
        return None if value is None else _section(value, f"{field} of {self.name}")

    def sections(self, field: str, length: int) -> list[Fields] | None:
        """A list of parts with fields of their own, one a layer; None where it is missing."""
        listed = self.listed(field, length, nested=True)
        named = f"of {field} of {self.name}"
        return listed and [_section(one, f"layer {layer} {named}") for layer, one in enumerate(listed[:length])]

    def renamed(self, **names: str) -> Fields:
        """The same fields, with some also under other names."""
        self._asked.update(names)
        moved = {new: self._data[old] for old, new in names.items() if self._data.get(old) is not None}
        return self.with_values(**moved)

    def with_values(self, **fields: Any) -> Fields:
        """The same fields with further ones."""
        found = Fields({**self._data, **fields}, self.name)
        found._asked, found._own = self._asked, self._own
        return found

    def with_single_values(self, *names: str) -> Fields:
        """The same fields, with a list that repeats one value written as the value."""
        lists = {name: self._data[name] for name in names if isinstance(self._data.get(name), list)}
        alike = {name: each[0] for name, each in lists.items() if each and each == each[:1] * len(each)}
        return self.with_values(**alike)

    def choice(self, field: str, known: Iterable[str], default: str | None = None) -> str:
        """One of a few words."""
        value, words = self.get(field, default), list(known)
        check_one_of(f"{field} of {self.name} is {quoted(value)}", str(value), words, f"known for {field}")
        return str(value)

    def refuse_other(self, **usual: Any) -> None:
        """Refuse a field that is there with another value than the one that is read."""
        for field, value in usual.items():
            if self.get(field, value) != value:
                wrong = f"{field} of {self.name} is {quoted(self.get(field))}"
                raise InputError(wrong, hint="leave it out" if value is None else f"it is read only as {quoted(value)}")

    def not_understood(self, field: str, hint: str) -> InputError:
        """The error of a field whose value means nothing that is known."""
        return InputError(f"{field} of {self.name} is not understood", hint=hint)

    def names(self) -> list[str]:
        """Names of the fields."""
        return list(self._data)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the library that may run it, by name.

        >>> [Fields({"architectures": each}, "t5").classes for each in (["T5EncoderModel", None], "T5", None)]
        [('T5EncoderModel',), (), ()]
        """
        written = self.get("architectures")
        return tuple(each for each in written if isinstance(each, str)) if isinstance(written, list | tuple) else ()

    def was_read(self, field: str) -> bool:
        """Whether a reader has asked for the field."""
        return field in self._asked

    def ignore(self, *names: str) -> None:
        """Mark fields as read that change nothing here."""
        self._asked.update(names)

    def ignore_inert(self) -> None:
        """Mark fields as read that change nothing in configurations of this type, as ``inert.toml`` lists them."""
        self.ignore(*inert_fields(self.kind))

    def unread(self) -> list[str]:
        """Fields that no reader has read and that might change a cost: not inert, not empty, not switched off.

        Defaults that are not in the file, and fields that repeat another under a second name, are left out.
        """
        return [
            field
            for field, value in self._data.items()
            if field not in self._asked
            and field in self._own
            and field not in inert_fields("every_type")
            and not field.startswith("_")
            and not field.endswith(("_token_id", "_token_ids", "_token_index"))
            and value not in (None, False, {}, [], "")
            and not (field == "sliding_window" and self._data.get("use_sliding_window") is False)
            and not self._repeats(field, value)
        ]

    def _repeats(self, field: str, value: Any) -> bool:
        """Whether a field that is read has another name of the same thing and the same value."""
        alike = (names.split() for names in _inert_file()["synonyms"])
        others = {name for names in alike if field in names for name in names} - {field}
        return any(name in self._asked and self._data.get(name) == value for name in others)

    def _above_zero(self, field: str, most: float, hint: str) -> float:
        value = self.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise InputError(f"{field} of {self.name} is {quoted(value)}", hint=hint)
        return float(value)

    def _whole(self, field: str, value: Any, most: int) -> int:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 1 <= value <= most or value != int(value):
            hint = f"it is a whole number from 1 to {most:,}"
            hint = "it is a whole number of at least 1" if not number or value < most else hint
            raise InputError(f"{field} of {self.name} is {quoted(value)}", hint=hint)
        return int(value)


def divide_evenly(fields: Fields, total: int, parts: int, what: str) -> int:
    """Divide without remainder, or raise an error that names the two sizes."""
    if total % parts:
        raise InputError(f"{fields.name}: {what.format(total=total, parts=parts)}", hint="check the configuration")
    return total // parts


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _section(value: Any, name: str) -> Fields:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} is {quoted(value)}", hint="it is a set of fields")
    return Fields(value, name)
