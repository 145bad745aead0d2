// What a stepper's data mean: buffers, steps, and what a request costs (see kernels/figures/stepper.py). It draws nothing.
(() => {
  "use strict"
  if (!window.klPhases) throw new Error("banks.js is not there, so no stepper is made: their tables stay")
  const WARP = 32, SECTOR = 32
  const READ = 0, WRITE = 1, ATOMIC = 2, BARRIER = 3
  const VERB = ["reads", "writes", "updates"], NOUN = ["read", "write", "update"]
  const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`

  // ---- buffers: an element's index, and its position when the buffer's rows are written one after the other ----
  class Buffer {
    constructor(given) {
      Object.assign(this, given)
      this.axes = this.shape.map((size, axis) => axis).sort((a, b) => this.strides[b] - this.strides[a] || a - b)
      this.count = this.shape.reduce((a, b) => a * b, 1)
      this.width = this.shape.length ? this.shape[this.shape.length - 1] : 1
      this.line = this.width === this.count // one row: it is drawn in lines of equal length
      this.height = this.line ? 1 : this.count / Math.max(1, this.width)
    }

    index(element) {
      let rest = element
      const index = this.shape.map(() => 0)
      for (const axis of this.axes) {
        if (this.shape[axis] < 2 || this.strides[axis] === 0) continue
        index[axis] = Math.floor(rest / this.strides[axis])
        if (index[axis] < 0 || index[axis] >= this.shape[axis]) return null
        rest -= index[axis] * this.strides[axis]
      }
      return rest === 0 && this.count ? index : null
    }

    position(element) {
      const index = this.index(element)
      return index ? index.reduce((at, i, axis) => at * this.shape[axis] + i, 0) : -1
    }

    // Where an element is that is none of the buffer.
    where(element) {
      if (element < 0) return "before the start"
      return element > this.shape.reduce((last, size, axis) => last + (size - 1) * this.strides[axis], 0) ? "past the end" : "outside"
    }

    text(element, alone = true) {
      const index = this.index(element)
      return `${this.name}[${index && index.length ? index.join(", ") : element}]${index || !alone ? "" : ` (${this.where(element)})`}`
    }

    // Elements in words: one, a run, even steps, or the first few.
    list(elements) {
      const all = [...new Set(elements)]
      const name = e => this.text(e)
      if (all.length < 3) return all.map(name).join(" and ")
      const step = all[1] - all[0]
      const even = all.every((e, i) => i === 0 || e - all[i - 1] === step)
      const steps = step === 1 ? "" : ` in steps of ${step}`
      const where = this.where(all[0]), outside = all.every(e => !this.index(e) && this.where(e) === where) // said once for all of them
      if (even) return `${this.text(all[0], !outside)}–${this.text(all[all.length - 1], !outside)}${steps}${outside ? ` (${where})` : ""}`
      return `${all.slice(0, 3).map(name).join(", ")} and ${all.length - 3} more`
    }
  }

  // ---- steps ----
  function decode([line, kind, buffer, size, interval, times, on, off], threads, buffers) {
    const width = buffer < 0 ? 1 : Math.max(1, Math.ceil(size / buffers[buffer].item))
    const spread = parts => {
      const found = new Map()
      for (const [t, dt, n, e, de, repeats = 1, shiftT = 0, shiftE = 0] of parts)
        for (let r = 0; r < repeats; r++)
          for (let i = 0; i < n; i++) {
            const thread = threads ? t + i * dt + r * shiftT : 0
            if (!found.has(thread)) found.set(thread, [])
            for (let w = 0; w < width; w++) found.get(thread).push(e + i * de + r * shiftE + w)
          }
      return found
    }
    return { line, kind, buffer, size, interval, times, width, on: spread(on), off: spread(off) }
  }

  // What one request of a warp costs, in words.
  function cost(step, buffer, members) {
    if (members.some(t => step.on.get(t).length !== step.width)) return ""
    if (buffer.space !== "shared") return traffic(buffer, members.flatMap(t => step.on.get(t)))
    if (members.length === 1) return "" // a lane has nobody to wait for
    const lanes = new Map(members.map(t => [t % WARP, buffer.address + step.on.get(t)[0] * buffer.item]))
    const worst = klPhases(NOUN[step.kind], step.size, lanes).map(banks => Math.max(...banks.map(words => words.size)))
    const passes = worst.reduce((a, b) => a + b, 0), degree = Math.max(...worst)
    return degree > 1
      ? `one bank must ${step.kind === ATOMIC ? `take ${degree} turns` : `deliver ${degree} different words`}, so it takes ${count(passes, "pass").replace("passs", "passes")}`
      : "no bank is asked for two different words"
  }

  // The sectors that elements of global memory lie in, and how much of them is asked for.
  function traffic(buffer, elements) {
    const asked = new Set(elements), sectors = new Set()
    for (const e of asked) {
      const first = buffer.address + e * buffer.item
      for (let b = first; b < first + buffer.item; b += Math.min(buffer.item, SECTOR)) sectors.add(Math.floor(b / SECTOR))
    }
    const used = asked.size * buffer.item, moved = sectors.size * SECTOR
    return `${count(sectors.size, "sector")} of ${SECTOR} bytes; ${Math.round(100 * used / moved)}% of the bytes moved are used`
  }

  window.klSteps = { WARP, READ, WRITE, ATOMIC, BARRIER, VERB, NOUN, Buffer, decode, cost, traffic, count }
})()
