"""Reads results.json and groups its records, so that what is missing is missing and nothing
fails."""

from collections import Counter, defaultdict
import gzip
import json

from .intervals import estimate

FORMAT = 2
# Bodies of several lengths: by default settings, with more threads than cores, beside a busy
# process, and on four cores.
BODIES = ["length", "oversubscribed", "beside-busy", "four-cores"]
# Operations that arrive at regular moments, and at random.
ARRIVALS = ["open-loop", "random-arrivals"]
# Single operations, back to back and after pauses that are alike, and after pauses at random.
SINGLE = ["round-trip", "push", "random-round-trip", "random-push"]
# What is measured of replays, and by which fields its records differ.
REPLAYS = {
    "replay-names": ["graph", "names"],
    "replay-stream": ["between", "body_ns"],
    "few-long": ["operations", "nap_us", "how"],
}
KINDS = ["throughput", *BODIES, "metg", *REPLAYS, *SINGLE, "wakes", *ARRIVALS, "jitter", "pushers", "counts"]
WORKLOADS = ["independent", "shared-read", "chain", "fan", "random", "stencil", "brief", "unrelated"]
PUSHED = ["disjoint", "read-mostly", "common"]
# Cores between which a cache line takes less than this are near each other, others are far.
NEAR_BELOW_NS = 60
PLACES = ["near", "far"]
PATTERNS = [
    "trivial",
    "no_comm",
    "stencil_1d",
    "dom",
    "tree",
    "fft",
    "all_to_all",
    "nearest",
    "spread",
    "random_nearest",
]
# What a record must have, besides what its kind adds, to be of use.
COMMON = ["entrant", "system", "style", "workers", "threads"]
NEEDED = {
    "throughput": ["workload", "ns"],
    "metg": ["pattern", "kernel", "width", "cores", "curve"],
    **{kind: [*fields, "ns"] for kind, fields in REPLAYS.items()},
    **{kind: ["pause_us", "percentiles"] for kind in SINGLE},
    "wakes": ["burst", "percentiles", "bare_wake", "awake"],
    **{kind: ["workload", "body_ns", "ns"] for kind in BODIES},
    **{kind: ["offered_per_s", "achieved_per_s", "percentiles"] for kind in ARRIVALS},
    "pushers": ["workload", "pushers", "per_s"],
    "jitter": ["background", "percentiles"],
    "counts": ["workload"],
}


class Series:
    """One entrant's measurements of one thing: a record for each repetition."""

    def __init__(self, records):
        # A repetition has one record, or one for each pair of cores.
        self.records = {}
        for record in records:
            repetition, turn = record.get("repetition", 0), 0
            while (repetition, turn) in self.records:
                turn += 1
            self.records[repetition, turn] = record
        self.first = records[0]
        self.entrant = self.first["entrant"]
        self.system = self.first["system"]
        self.style = self.first["style"]
        self.workers = self.first["workers"]
        self.threads = self.first["threads"]

    @property
    def ours(self):
        return self.system == "seriatim"

    def values(self, field):
        """{repetition: value}; the field is a name, or a function of the record."""
        read = field if callable(field) else lambda record: record.get(field)
        found = {repetition: read(record) for repetition, record in self.records.items()}
        return {repetition: value for repetition, value in found.items() if value is not None}

    def estimate(self, field):
        return estimate(self.values(field).values())

    def where(self, wanted):
        """The same with only the records that are wanted, or None."""
        kept = [record for record in self.records.values() if wanted(record)]
        return Series(kept) if kept else None

    def in_hops(self, field):
        read = field if callable(field) else lambda record: record.get(field)

        def hops(record):
            value, hop = read(record), record.get("hop_ns")
            return value / hop if value is not None and hop else None

        return self.estimate(hops)


def place(record):
    """near or far, by the hop that was measured before and after; `moved` if it was one before and
    the other after. None if it was not measured."""
    hops = [record[field] for field in ("hop_ns", "hop_after_ns") if record.get(field)]
    if not hops:
        return None
    if max(hops) < NEAR_BELOW_NS:
        return "near"
    return "far" if min(hops) >= NEAR_BELOW_NS else "moved"


def identity(record):
    """What was measured of whom: the same in all repetitions."""
    fields = ["kind", "entrant", "workload", "pattern", "kernel", "width", "pause_us", "offered_per_s"]
    # Others measure how long their bodies are: it differs from repetition to repetition.
    fields += ["body_ns"] if record["kind"] in BODIES else REPLAYS.get(record["kind"], ["burst"])
    return tuple(record.get(field) for field in [*fields, "background", "pushers"])


class Results:
    """All records of a file."""

    def __init__(self, content):
        if content.get("format") != FORMAT:
            raise ValueError(f"results of format {content.get('format')!r}; this report reads format {FORMAT}")
        self.content = content
        self.machine = content.get("machine") or {}
        self.skipped = content.get("skipped") or []
        self.records = defaultdict(list)
        self.unreadable = []
        self.indexes = {}
        self.places = {}
        self.counts = None
        # Another sitting, on cores of the other kind: asked only by `on`.
        self.elsewhere = Results(content["elsewhere"]) if content.get("elsewhere") else None
        for record in content.get("records") or []:
            kind = record.get("kind")
            missing = [field for field in COMMON + NEEDED.get(kind, []) if record.get(field) is None]
            if kind not in NEEDED:
                self.unreadable.append(f"a record of the unknown kind {kind!r}")
            elif missing:
                self.unreadable.append(f"a {kind} record of {record.get('entrant')} without {', '.join(missing)}")
            elif "percentiles" in NEEDED[kind] and not record["percentiles"].get("count"):
                # Its percentiles are zeros, which would win.
                self.unreadable.append(f"a {kind} record of {record['entrant']} that counted nothing")
            else:
                self.records[kind].append(record)

    def on(self, where):
        """Those that were measured on near cores, or on far ones."""
        if where not in self.places:
            if self.sitting(where) is not self:
                return self.elsewhere.on(where)
            records = [record for found in self.records.values() for record in found if place(record) == where]
            counts = Counter(map(identity, records))
            kept = [record for record in records if counts[identity(record)] >= self.least]
            self.places[where] = Results({**self.content, "records": kept, "elsewhere": None})
        return self.places[where]

    def count(self, where):
        """How many records there are of such cores."""
        if self.counts is None:
            self.counts = Counter(place(record) for found in self.records.values() for record in found)
        return self.counts[where]

    def sitting(self, where):
        """The one of two sittings that had more of such cores."""
        other = self.elsewhere
        return other if other and other.count(where) > self.count(where) else self

    def measured_on(self):
        """The places of which there are enough figures, and how many process runs each had, the
        moved ones too."""
        counts = {name: self.sitting(name).count(name) for name in PLACES}
        counts["moved"] = sum(found.count("moved") for found in [self, self.elsewhere] if found)
        return [name for name in PLACES if counts[name]], counts

    @property
    def repetitions(self):
        """How many there really are, for the statement of the method."""
        found = {record.get("repetition", 0) for records in self.records.values() for record in records}
        return len(found) or self.content.get("repetitions", 0)

    @property
    def least(self):
        """From how many repetitions on near or on far cores a figure is made: a host that moves the
        cores for one repetition of nine makes none."""
        return 3 if self.repetitions >= 9 else 1

    def series(self, kind, *fields):
        """{(field values..., entrant): Series} of a kind, in the order of the file."""
        groups = defaultdict(list)
        for record in self.records[kind]:
            groups[tuple(record.get(field) for field in fields) + (record["entrant"],)].append(record)
        return {key: Series(records) for key, records in groups.items()}

    def of(self, kind, **wanted):
        """{entrant: Series} of the records with these values."""
        fields = tuple(sorted(wanted))
        if (kind, fields) not in self.indexes:
            # Asked for often, and there may be tens of thousands of records.
            index = defaultdict(dict)
            for key, series in self.series(kind, *fields).items():
                index[key[:-1]][series.entrant] = series
            self.indexes[kind, fields] = index
        return dict(self.indexes[kind, fields].get(tuple(wanted[field] for field in fields), {}))

    def values_of(self, kind, field, order=()):
        """The distinct values of a field: those of `order` first and in that order, then the
        others, sorted."""
        found = {record.get(field) for record in self.records[kind]}
        return [value for value in order if value in found] + sorted(value for value in found if value not in order)

    def versions(self):
        """{system: [versions]}."""
        found = defaultdict(set)
        for records in self.records.values():
            for record in records:
                if record.get("version"):
                    found[record["system"]].add(record["version"])
        return {system: sorted(versions) for system, versions in found.items()}

    def missing(self):
        """What is not there, a sentence each."""
        told = {each.get("entrant") for each in self.skipped}
        sentences = [
            f"There is no record of the kind “{kind}”." for kind in KINDS if not self.records[kind] and kind not in told
        ]
        workloads = self.values_of("throughput", "workload", WORKLOADS)
        lacking = defaultdict(list)
        for entrant in {record["entrant"] for record in self.records["throughput"]}:
            has = {record["workload"] for record in self.records["throughput"] if record["entrant"] == entrant}
            without = tuple(name for name in workloads if name not in has)
            if without:
                lacking[without].append(entrant)
        for without, entrants in sorted(lacking.items()):
            sentences.append(f"No throughput of {', '.join(without)}: {', '.join(sorted(entrants))}.")
        # One for each repetition, or on machines with near and far cores two.
        expected = max((len(series.records) for series in self.series("throughput", "workload").values()), default=0)
        short = sorted(
            {
                f"{series.entrant} ({len(series.records)})"
                for series in self.series("throughput", "workload").values()
                if len(series.records) < expected
            }
        )
        if short:
            sentences.append(f"Fewer than {expected} runs of some workload: {', '.join(short)}.")
        return sentences + [f"Left out: {reason}." for reason in sorted(set(self.unreadable))]


def read(path):
    """The results of a file, which may be gzipped, as those under perf/results are."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        return Results(json.load(file))


def write(content, path):
    """The content of such a file, gzipped; always the same bytes."""
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(json.dumps(content, separators=(",", ":")).encode())


def at_rank(rank):
    """A reader of one percentile of a record."""

    def read_point(record):
        return next((value for at, value in record["percentiles"].get("points", []) if abs(at - rank) < 1e-9), None)

    return read_point


def join(one, other):
    """The content of two sittings, on near and on far cores. What does not ask for the cores is
    told of the first."""
    for path in (one, other):
        if read(path).elsewhere:
            raise ValueError(f"{path} is of two sittings already")
    return {**read(one).content, "elsewhere": read(other).content}
