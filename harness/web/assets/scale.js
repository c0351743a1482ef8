// The time axis: from a time of the run to a place between 0 and 1, with idle time folded.

/** The share of the axis that one stretch without events may take when idle time is folded. */
const LARGEST_GAP = 0.03;

/**
 * The longest length of a gap, so that no gap takes more than its share.
 * @param {number[]} gaps
 * @returns {number}
 */
function limitOfGaps(gaps) {
  const share = Math.max(LARGEST_GAP, 2 / Math.max(1, gaps.length));
  let limit = Math.max(...gaps, 1);
  for (let round = 0; round < 40; round++) {
    limit = share * gaps.reduce((sum, gap) => sum + Math.min(gap, limit), 0);
  }
  return Math.max(1, limit);
}

/** A time axis. */
export class Scale {
  /**
   * @param {number[]} times the times of all events, in any order
   * @param {number} lasted the length of the run
   * @param {boolean} folded whether idle time is folded
   */
  constructor(times, lasted, folded) {
    const all = new Float64Array([0, ...times, lasted]).sort();
    const unique = all.filter((time, number) => number === 0 || time > all[number - 1]);
    const gaps = [];
    for (let number = 1; number < unique.length; number++) gaps.push(unique[number] - unique[number - 1]);
    const limit = folded ? limitOfGaps(gaps) : Infinity;
    /** The times at which the slope of the axis changes. */
    this.times = unique;
    this.places = new Float64Array(unique.length);
    /** @type {{from: number, to: number, length: number}[]} */
    this.folds = [];
    for (let number = 1; number < unique.length; number++) {
      const gap = gaps[number - 1];
      this.places[number] = this.places[number - 1] + Math.min(gap, limit);
      // A gap that is only a little longer is not worth a mark.
      if (gap > 2 * limit) this.folds.push({ from: unique[number - 1], to: unique[number], length: gap });
    }
    this.total = this.places[this.places.length - 1] || 1;
  }

  /**
   * The place of a time.
   * @param {number} time
   * @returns {number}
   */
  place(time) {
    return this.map(this.times, this.places, time) / this.total;
  }

  /**
   * The time at a place.
   * @param {number} place
   * @returns {number}
   */
  time(place) {
    return this.map(this.places, this.times, place * this.total);
  }

  /**
   * Interpolates between two increasing lists.
   * @param {Float64Array} from
   * @param {Float64Array} to
   * @param {number} value
   * @returns {number}
   */
  map(from, to, value) {
    const last = from.length - 1;
    if (last < 1 || value <= from[0]) return to[0];
    if (value >= from[last]) return to[last];
    let [low, high] = [0, last];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (from[middle] <= value) low = middle;
      else high = middle;
    }
    const part = (value - from[low]) / (from[high] - from[low] || 1);
    return to[low] + part * (to[high] - to[low]);
  }
}
