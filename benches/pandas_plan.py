"""The optimal freshness plan in pandas and numpy: the baseline springtide is timed against.

Run: python3 pandas_plan.py IN.csv OUT.csv BUDGET_PER_DAY
IN.csv has the columns id and rate_per_day, and optionally weight and cost (1 where the
column is absent). OUT.csv gets id, frequency_per_day, freshness and age_days; the time
of each stage goes to stderr.

The plan maximises sum(weight * F), F = (1 - exp(-x)) / x with x = rate / frequency,
subject to sum(cost * frequency) = budget. At the optimum every polled element satisfies
    1 - exp(-x) (1 + x) = y,    y = price * rate * cost / weight < 1,
and an element with y >= 1 is never polled. One number, the price, remains to be found.
"""

import sys
import time

import numpy as np
import pandas as pd

BLOCK = 32768  # elements worked on at once, so that temporaries stay in cache
SCRATCH = np.empty((5, BLOCK))
TOLERANCE = 1e-11  # relative error of the budget at which the search for the price stops
SAMPLE = 100  # a first guess of the price comes from every SAMPLE-th element

# x - log(1 + x) = t^2 / 2 solved for x as a power series in t, highest power first.
SERIES = [1 / 204120, -139 / 5443200, 1 / 17010, 1 / 4320, -1 / 270, 1 / 36, 1 / 3, 1.0]


def read(path):
    """The table, every column checked."""
    names = pd.read_csv(path, nrows=0).columns
    for name in ("id", "rate_per_day"):
        if name not in names:
            sys.exit(f"{path}: no column {name}")
    types = {"id": object, "rate_per_day": float, "weight": float, "cost": float}
    types = {name: kind for name, kind in types.items() if name in names}
    table = pd.read_csv(path, engine="c", usecols=list(types), dtype=types, na_filter=False)
    for name in table.columns.drop("id"):
        values = table[name].to_numpy()
        # min and max carry NaN through, so two passes without temporaries check everything.
        if len(values) and not (values.min() >= 0 and values.max() < np.inf):
            sys.exit(f"{path}: {name} must be finite and not negative")
    if "cost" in table and (table["cost"].to_numpy() == 0).any():
        sys.exit(f"{path}: cost must be positive")
    if not pd.Index(table["id"]).is_unique:  # at once where ids are sorted, else by hashing
        sys.exit(f"{path}: ids must be unique")
    return table


def halley(x, target, above, step):
    """The Halley step, to be subtracted from x, towards x - log(1 + x) = target."""
    np.add(x, 1, out=above)
    np.log1p(x, out=step)
    np.subtract(x, step, out=step)
    step -= target
    step *= above
    step /= x  # the Newton step; Halley divides it by 1 - step / (2 x (1 + x))
    above *= x
    np.divide(step, above, out=above)
    above *= -0.5
    above += 1
    step /= above
    return step


def invert(y):
    """Solve 1 - exp(-x) (1 + x) = y, 0 < y < 1, as x - log(1 + x) = -log(1 - y).

    Takes at most BLOCK elements; the answer is scratch space, valid until the next call.
    """
    x, target, t, above, step = SCRATCH[:, : len(y)]
    np.negative(y, out=t)
    np.log1p(t, out=target)
    np.negative(target, out=target)
    np.multiply(target, 2, out=t)
    np.sqrt(t, out=t)
    x.fill(SERIES[0])
    for coefficient in SERIES[1:]:
        x *= t
        x += coefficient
    x *= t
    far = np.flatnonzero(t > 2)
    if far.size:
        goal = target[far]
        log = np.log1p(goal)
        start = goal + log + log / (1 + goal)
        x[far] = start - halley(start, goal, above[: far.size], step[: far.size])
    # Below t = 0.1 the series is exact to rounding and the step would only add noise.
    np.subtract(x, halley(x, target, above, step), out=x, where=t > 0.1)
    return x


def spend(price, hurdle, load):
    """Budget used at a price, and its derivative with respect to log(price).

    hurdle = rate * cost / weight and load = rate * cost. The budget is sum(load / x), and
    from dy/dx = x exp(-x) and exp(x) = (1 + x) / (1 - y) its derivative is
    -sum(load * y * exp(x) / x^3) = -sum(load / x * y * (1 + x) / ((1 - y) x^2)).
    """
    used = slope = 0.0
    for start in range(0, len(hurdle), BLOCK):
        y = price * hurdle[start : start + BLOCK]
        part = load[start : start + BLOCK]
        active = np.flatnonzero(y < 1)
        if active.size < y.size:
            y, part = y[active], part[active]
        x = invert(y)
        part = part / x
        used += part.sum()
        part *= y
        np.subtract(1, y, out=y)
        y *= x
        y *= x
        part /= y
        x += 1
        part *= x
        slope -= part.sum()
    return used, slope


def find_price(hurdle, load, budget):
    """Prices low <= high that enclose the optimum, and the budgets used at both.

    They are equal unless the frequencies change by more than the tolerance between two
    neighbouring floating-point numbers, as they may for an element about to be dropped.
    """
    # sqrt(1 / 2y) - sqrt(1 / 2) <= 1 / x <= sqrt(1 / 2y) encloses the price from the start.
    root = (load / np.sqrt(2 * hurdle)).sum()
    low = (root / (budget + load.sum() * np.sqrt(0.5))) ** 2 * (1 - 1e-9)
    high = min((root / budget) ** 2 * (1 + 1e-9), (1 + 1e-15) / hurdle.min())
    used_low, used_high = np.inf, 0.0
    price = np.sqrt(low) * np.sqrt(high)
    if len(hurdle) >= 1000 * SAMPLE:
        some = slice(None, None, SAMPLE)
        price = find_price(hurdle[some].copy(), load[some].copy(), budget / SAMPLE)[0]
        reachable = hurdle * low < 1
        hurdle, load = hurdle[reachable], load[reachable]

    while True:
        if not low < price < high:
            price = np.sqrt(low) * np.sqrt(high) if high > 2 * low else low + (high - low) / 2
            if not low < price < high:
                if used_low == np.inf:
                    used_low = spend(low, hurdle, load)[0]
                return low, high, used_low, used_high
        used, slope = spend(price, hurdle, load)
        if abs(used - budget) <= TOLERANCE * budget:
            return price, price, used, used
        if used > budget:
            low, used_low = price, used
        else:
            high, used_high = price, used
        # Newton on log(used) as a function of log(price); a step out of bounds is bisected.
        price = price * np.exp(np.log(budget / used) * used / slope) if slope < 0 else np.nan


def solve(rate, weight, cost, budget):
    """Frequency, freshness and age of every element, and the price."""
    n = len(rate)
    frequency = np.zeros(n)
    freshness = np.where(rate > 0, 0.0, 1.0)
    age = np.where(rate > 0, np.inf, 0.0)
    load = rate if cost is None else rate * cost
    # An element of weight 0 has an infinite hurdle and is never polled.
    with np.errstate(divide="ignore", invalid="ignore"):
        hurdle = load if weight is None else load / weight
    useful = (rate > 0) & (hurdle < np.inf)
    if budget == 0 or not useful.any():
        return frequency, freshness, age, np.nan
    if useful.all():
        low, high, used_low, used_high = find_price(hurdle, load, budget)
    else:
        low, high, used_low, used_high = find_price(hurdle[useful], load[useful], budget)
    # Mixing the plans of the two enclosing prices uses the budget exactly.
    share = 1.0 if low == high else (budget - used_high) / (used_low - used_high)

    for start in range(0, n, BLOCK):
        end = start + BLOCK
        y = low * hurdle[start:end]
        active = np.flatnonzero((y < 1) & useful[start:end])
        if not active.size:
            continue
        r, y = rate[start:end][active], y[active]
        x = invert(y)
        f = r / x
        if low < high:
            f *= share
            y = high * hurdle[start:end][active]
            kept = np.flatnonzero(y < 1)
            f[kept] += (1 - share) * r[kept] / invert(y[kept])
            x = r / f
        fresh = -np.expm1(-x) / x
        # age * f = 1/2 - 1/x + (1 - exp(-x)) / x^2, by its series where that cancels.
        stale = 0.5 - (1 - fresh) / x
        near = np.flatnonzero(x < 0.1)
        if near.size:
            s = x[near]
            tail = 1 - s / 6 * (1 - s / 7 * (1 - s / 8 * (1 - s / 9)))
            stale[near] = s / 6 * (1 - s / 4 * (1 - s / 5 * tail))
        frequency[start:end][active] = f
        freshness[start:end][active] = fresh
        age[start:end][active] = stale / f
    return frequency, freshness, age, low


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: python3 pandas_plan.py IN.csv OUT.csv BUDGET_PER_DAY")
    source, target, budget = sys.argv[1], sys.argv[2], float(sys.argv[3])
    if not 0 <= budget < np.inf:
        sys.exit("the budget must be finite and not negative")

    begin = time.perf_counter()
    table = read(source)
    after_read = time.perf_counter()

    rate = table["rate_per_day"].to_numpy()
    weight = table["weight"].to_numpy() if "weight" in table else None
    cost = table["cost"].to_numpy() if "cost" in table else None
    frequency, freshness, age, price = solve(rate, weight, cost, budget)
    after_solve = time.perf_counter()

    plan = pd.DataFrame(
        {"id": table["id"], "frequency_per_day": frequency, "freshness": freshness, "age_days": age}
    )
    plan.to_csv(target, index=False)
    after_write = time.perf_counter()

    used = frequency.sum() if cost is None else np.dot(frequency, cost)
    mean = freshness.mean() if weight is None else np.dot(freshness, weight) / weight.sum()
    print(
        f"read  {after_read - begin:9.3f} s",
        f"solve {after_solve - after_read:9.3f} s",
        f"write {after_write - after_solve:9.3f} s",
        f"total {after_write - begin:9.3f} s",
        f"n {len(table)}, budget used {used:.12g}, price {price:.12g}, "
        f"weighted mean freshness {mean:.12g}",
        sep="\n",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
