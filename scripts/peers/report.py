"""Reads what `foldmill bench` prints and writes the table. Standard library only."""
import json
import math
import statistics
import subprocess

TITLES = {"foldmill": "Foldmill", "jax": "JAX", "keras": "Keras", "torch": "PyTorch", "study": "study prototype"}
# Below this part of the time on the core, something else ran there and the figure is an upper bound.
QUIET = 0.95


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def row_time(row):
    """Microseconds a step of one JSON row, or None."""
    plain = {"".join(c if c.isalnum() else "_" for c in str(k).lower()): v for k, v in row.items()}
    for key in ("us_per_step", "us_step", "microseconds_per_step", "step_us", "us"):
        if is_number(plain.get(key)) and plain[key] > 0:
            return float(plain[key])
    for key in ("steps_per_second", "steps_s", "steps_per_s"):
        if is_number(plain.get(key)) and plain[key] > 0:
            return 1e6 / plain[key]
    return None


def json_values(text):
    """All JSON values that stand one after another or one a line in the text; prose between them is passed over."""
    decoder, at, values = json.JSONDecoder(), 0, []
    while at < len(text):
        begins = [i for i in (text.find("{", at), text.find("[", at)) if i >= 0]
        if not begins:
            break
        try:
            value, at = decoder.raw_decode(text, min(begins))
            values.append(value)
        except ValueError:
            at = min(begins) + 1
    return values


def rows_of_json(value, network=None):
    """{(network, batch): us}, wherever in the value they stand; rows may stand below the object of their network."""
    rows = {}
    if isinstance(value, list):
        for part in value:
            rows |= rows_of_json(part, network)
    elif isinstance(value, dict):
        network = value.get("network", value.get("net", network))
        batch, took = value.get("batch", value.get("batch_size")), row_time(value)
        if isinstance(network, str) and isinstance(batch, int) and took:
            rows[network, batch] = took
        for part in value.values():
            if isinstance(part, (dict, list)):
                rows |= rows_of_json(part, network)
    return rows


def number_or_none(word, kind=float):
    """Cells may be shares in percent, or "-"."""
    try:
        return kind(word)
    except ValueError:
        return None


def rows_of_table(text):
    """The same from the table; its columns are found by their headings, which name no blanks."""
    columns, rows = None, {}
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["network", "batch"]:
            columns = words
            continue
        if not columns or len(words) < len(columns):
            continue
        cells = dict(zip(columns[2:], map(number_or_none, words[2 : len(columns)])))
        took, batch = row_time(cells), number_or_none(words[1], int)
        if batch is None:
            continue
        if took:
            rows[words[0], batch] = took
    return rows


def parse_bench(text):
    """{(network, batch): microseconds a step} from JSON or, where there is none, from the table."""
    return rows_of_json(json_values(text)) or rows_of_table(text)


def summarise(rounds):
    """The median over rounds; each is the least of its chunks, so that a disturbance does not count."""
    return statistics.median(min(chunks) for chunks in rounds)


def show_time(us):
    return f"{us:.1f}" if us < 99.95 else f"{us:,.0f}"


def show_ratio(ratio):
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"


def cell(row, who):
    result = row["results"].get(who)
    if result is None:
        return "-"
    text = show_time(result["us"]) + ("\\*" if result["share"] < QUIET else "")
    own = row["results"].get("foldmill")
    if who == "foldmill":
        return f"**{text}**"
    return f"{text} ({show_ratio(result['us'] / own['us'])}x)" if own else text


def table(rows, who):
    """rows: [{"network", "batch", "results": {contestant: {"us", "share", "way"}}}]; Markdown."""
    lines = ["| network, batch | " + " | ".join(TITLES[w] for w in who) + " |", "| --- |" + " ---: |" * len(who)]
    for row in rows:
        cells = " | ".join(cell(row, w) for w in who)
        lines.append(f"| {row['network']}, {row['batch']:,} | {cells} |")
    return "\n".join(lines)


def ways(rows, who):
    """Which way of computing won, one line a contestant; rows with the same way stand together."""
    lines = []
    for contestant in who:
        found = {}
        for row in rows:
            result = row["results"].get(contestant)
            if result and result.get("way"):
                found.setdefault(result["way"], []).append(f"{row['network']} {row['batch']:,}")
        if found:
            told = "; ".join(f"{way}: {', '.join(where)}" for way, where in found.items())
            lines.append(f"- {TITLES[contestant]}: {told}")
    return "\n".join(lines)


def disturbed(rows):
    return any(result["share"] < QUIET for row in rows for result in row["results"].values())


def machine_line(text=None):
    """From lscpu: the model, the cores and which vector instructions it has."""
    try:
        text = text or subprocess.run(["lscpu"], capture_output=True, text=True, check=True,
                                      env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout
    except (OSError, subprocess.CalledProcessError):
        return "a machine without lscpu"
    fields = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    flags = set(fields.get("Flags", fields.get("Features", "")).split())
    # Virtual machines hide the model's name; family, model and stepping still tell it.
    numbers = "/".join(fields[k] for k in ("CPU family", "Model", "Stepping") if k in fields)
    vectors = ", ".join(f"{f} {'yes' if f in flags else 'no'}" for f in ("avx2", "fma", "avx512f"))
    return (f"{fields.get('Model name', fields.get('Architecture', 'unknown processor'))} "
            f"(family/model/stepping {numbers or 'unknown'}), {fields.get('CPU(s)', '?')} CPUs, {vectors}")
