"""How numbers are written."""


def show(measured, unit="", digits=3):
    """A median with its interval, in so many significant digits."""
    if measured is None:
        return "–"
    median, low, high = (significant(value, digits) for value in (measured.median, measured.low, measured.high))
    unit = f" {unit}" if unit else ""
    return f"{median}{unit}" if measured.count < 2 else f"{median}{unit} [{low}, {high}]"


def significant(value, digits=3):
    """A number in so many significant digits, and never as an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    decimals = digits - 1
    while abs(value) < 10 ** (digits - 1 - decimals) and decimals < 6:
        decimals += 1
    size = abs(value)
    while size >= 10 and decimals > 0:
        size /= 10
        decimals -= 1
    return f"{value:.{decimals}f}"


def percent(share):
    """A share in whole per cent; one that is neither nothing nor everything never looks as if it
    were."""
    if share is None:
        return "–"
    if 0 < share < 0.005:
        return "< 1 %"
    if 0.995 < share < 1:
        return "> 99 %"
    return f"{100 * share:.0f} %"
