// Makes sliders and a picture of every explorer on the page (see kernels/figures/explorers.py). Nothing is fetched, and
// without this script the table that it hides shows some of the same cases.
(() => {
  "use strict"
  if (!window.klPhases) throw new Error("banks.js is not there, so no explorer is made: their tables stay")
  const LANES = 32, BANKS = 32
  let made = 0

  // ---- small parts ----
  const element = window.klElement
  const count = (n, word, many = `${word}s`) => `${n.toLocaleString("en")} ${n === 1 ? word : many}`
  // As number of kernels/figures/html.py writes it, in the table that stands below.
  function short(n) {
    if (Number.isInteger(n) && n < 1e15) return n.toLocaleString("en")
    if (n < 1e-4 || n >= 1e9) return n.toExponential(2).replace(/e([-+])(\d)$/, "e$10$2")
    const places = Math.max(0, 2 - Math.floor(Math.log10(n))), half = n.toFixed(places + 1), up = n.toFixed(places)
    const even = half.endsWith("5") && Number.isInteger(n * 2 ** (places + 1)) && up.slice(-1) % 2 // of two as near, the even one
    const words = even ? half.slice(0, -1) : up
    return places ? words : Number(words).toLocaleString("en")
  }
  const range = (n, f) => Array.from({ length: n }, (_, i) => f(i))
  const up = (a, b) => Math.ceil(a / b)
  const text = (x, y, words, name = "") => `<text class="kl-t ${name}" x="${x}" y="${y}">${words}</text>`
  const rect = (x, y, w, h, name) => `<path class="${name}" d="M${x} ${y}h${w}v${h}h${-w}z"/>`
  // What lies past an edge, hatched; each picture needs the pattern once.
  const hatching = id => `<defs><pattern id="${id}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
    '<rect class="kl-hatch-back" width="6" height="6"/><rect class="kl-hatch-line" width="2" height="6"/></pattern></defs>'
  const hatched = (id, x, y, w, h) => `<path class="kl-masked" fill="url(#${id})" d="M${x} ${y}h${w}v${h}h${-w}z"/>`
  const owner = i => `kl-own kl-c${i % 8}`
  // "column 64" or "columns 0–31"
  const run = (word, first, last) => first === last ? `${word} ${first}` : `${word}s ${first}–${last}`
  // A line of words, or several where the picture is narrow.
  function lines(x, y, width, words, name) {
    const body = [""]
    for (const word of words.split(" ")) {
      const longer = `${body[body.length - 1]} ${word}`.trim()
      if (6 * longer.length > width && body[body.length - 1]) body.push(word)
      else body[body.length - 1] = longer
    }
    return { body: body.map((line, i) => text(x, y + 15 * i, line, name)), height: 15 * (body.length - 1) }
  }
  // What the colours mean: [class, or #pattern, and words] side by side, below each other where the picture is narrow.
  function legend(x, y, width, entries) {
    const body = []
    let right = x, line = y
    for (const [name, words] of entries) {
      const wide = 30 + 6.4 * words.length
      if (right > x && right + wide > width) [right, line] = [x, line + 18]
      body.push(name[0] === "#" ? hatched(name.slice(1), right, line, 11, 11) : rect(right, line, 11, 11, name), text(right + 17, line + 10, words, "kl-t--soft"))
      right += wide
    }
    return { body, height: line - y + 18 }
  }

  const phases = (address, size) => klPhases("read", size, new Map(range(LANES, lane => [lane, address(lane)]))) // see banks.js

  // ---- a warp's addresses: sectors of global memory, banks of shared memory ----
  const access = {
    controls: () => [
      { name: "space", label: "Memory", values: ["global", "shared"], choice: true },
      { name: "stride", label: "Step", values: range(34, i => i), unit: n => count(n, "element") },
      { name: "offset", label: "Offset", values: range(LANES, i => i), unit: n => count(n, "element") },
      { name: "size", label: "Bytes", values: [4, 8, 16], unit: n => `${n} a lane` },
    ],
    start: data => ({ ...data.start, space: ["global", "shared"][data.start.space] }),
    draw({ space, stride, offset, size }, data, width) {
      const address = lane => (offset + lane * stride) * size
      const head = `32 lanes read ${size} bytes each, ${stride ? `${count(stride, "element")} apart` : "all the same element"}`
      const drawn = space === "global" ? this.sectors(address, size, data.sector, head, width) : this.banks(address, size, head, width)
      const all = this.steps(space, offset, size, data), what = space === "global" ? "sectors" : "passes"
      return { ...drawn, top: this.overview(all, stride, what, width), facts: { [what]: all[stride] }, label: `a step of ${stride}${offset ? `, offset ${offset}` : ""}${size > 4 ? `, ${size} bytes a lane` : ""}` }
    },
    // What each step would cost: sectors, or passes.
    steps(space, offset, size, data) {
      const key = [space, offset, size].join()
      data.costs ||= {}
      return data.costs[key] ||= range(34, stride => {
        const at = lane => (offset + lane * stride) * size
        if (space === "global") return new Set(range(LANES, lane => Math.floor(at(lane) / data.sector))).size // no element lies in two
        return phases(at, size).reduce((sum, banks) => sum + Math.max(...banks.map(bank => bank.size)), 0)
      })
    },
    overview(all, stride, what, width) {
      const c = Math.min(20, (width - 4) / all.length), high = 46, base = 20 + high, most = Math.log2(Math.max(...all)) || 1
      const body = [text(2, 11, `${what} at each step, logarithmic`, "kl-t--soft")]
      all.forEach((cost, step) => {
        const tall = 4 + (high - 4) * Math.log2(cost) / most, here = step === stride
        body.push(rect(2 + step * c, base - tall, c - 2, tall, here ? "kl-asked-bank" : "kl-bar"))
        if (here || step % 8 === 0 && Math.abs(step - stride) > 1) body.push(text(2 + step * c + c / 2 - 1, base + 13, step, `kl-t--m ${here ? "kl-t--strong" : "kl-t--soft"}`))
      })
      return { body, height: base + 26, pick: x => { const step = Math.floor((x - 2) / c); return all[step] && { stride: step } } }
    },
    sectors(address, size, sector, head, width) {
      const lanes = new Map(), bytes = new Set()
      for (let lane = 0; lane < LANES; lane++) {
        bytes.add(address(lane))
        for (let s = Math.floor(address(lane) / sector); s * sector < address(lane) + size; s++)
          lanes.set(s, [...(lanes.get(s) || []), lane])
      }
      const touched = [...lanes.keys()].sort((a, b) => a - b), first = touched[0] - touched[0] % 4
      const all = touched[touched.length - 1] + 1 - first, used = bytes.size * size, moved = touched.length * sector
      const c = Math.min(22, (width - 4) / LANES), parts = [text(2, 11, "lanes, coloured by the sector that they ask for", "kl-t--soft")]
      for (let lane = 0; lane < LANES; lane++) {
        const at = touched.indexOf(Math.floor(address(lane) / sector))
        parts.push(rect(2 + lane * c, 18, c - 1, c - 1, owner(at)))
        if (c > 17) parts.push(text(2 + lane * c + c / 2, 18 + c / 2 + 4, lane, "kl-t--small kl-t--m"))
      }
      const key = lines(2, 18 + c + 18, width - 2, "sectors of 32 bytes: the number of lanes that ask; four are a line of 128 bytes", "kl-t--soft")
      const across = Math.max(4, Math.floor((width - 4) / 34 / 4) * 4), top = 18 + c + 26 + key.height
      parts.push(...key.body)
      for (let i = 0; i < all; i++) {
        const x = 2 + i % across * 34, y = top + Math.floor(i / across) * 22, who = lanes.get(first + i)
        parts.push(rect(x + (i % 4 ? 0 : 2), y, 32 - (i % 4 ? 0 : 2), 18, who ? owner(touched.indexOf(first + i)) : "kl-cell kl-cell--off"))
        if (who) parts.push(text(x + 17, y + 13, who.length, "kl-t--small kl-t--m"))
      }
      const say = `${head}: ${count(touched.length, "sector")}, ${count(moved, "byte")} moved, ${short(100 * used / moved)}% of them used.`
      return { body: parts, height: top + up(all, across) * 22 + 4, say }
    },
    banks(address, size, head, width) {
      const found = phases(address, size)
      const turns = found.flatMap(banks => range(Math.max(...banks.map(bank => bank.size)), turn =>
        banks.map(bank => [...bank].sort((a, b) => a[0] - b[0])[turn])))
      const c = Math.min(20, (width - 52) / BANKS), tall = turns.length > 8 ? Math.min(c, 12) : c, parts = [text(50, 11, "bank →", "kl-t--soft")]
      for (let bank = 0; bank < BANKS; bank += 4) parts.push(text(50 + bank * c + c / 2, 26, bank, "kl-t--soft kl-t--m"))
      turns.forEach((banks, turn) => {
        parts.push(text(44, 30 + turn * tall + tall * .8, tall > 11 ? `pass ${turn + 1}` : turn % 2 ? "" : turn + 1, "kl-t--soft kl-t--e"))
        banks.forEach((asked, bank) => {
          parts.push(rect(50 + bank * c, 30 + turn * tall, c - 1, tall - 1, asked ? "kl-asked-bank" : "kl-idle"))
          if (asked && c > 15) parts.push(text(50 + bank * c + c / 2, 30 + turn * tall + tall / 2 + 4, asked[1].length > 1 ? `×${asked[1].length}` : asked[1][0], "kl-t--small kl-t--m"))
        })
      })
      const say = `${head}: ${count(turns.length, "pass", "passes")} over the banks; ${count(found.length, "pass", "passes")} would do without a conflict.`
      return { body: parts, height: 34 + turns.length * tall, say }
    },
  }

  // ---- the walk of one program of a tiled matrix product ----
  const tiles = {
    controls: ({ sides, m, n, k }) => [
      { name: "bm", label: "Tile rows", values: sides }, { name: "bn", label: "Tile columns", values: sides },
      { name: "bk", label: "Depth", values: sides },
      { name: "program", label: "Program", values: s => range(up(m, s.bm) * up(n, s.bn), i => i) },
      { name: "step", label: "Step", values: s => range(up(k, s.bk), i => i + 1), unit: (x, s) => `${x} of ${up(k, s.bk)}`, walk: true },
    ],
    start: data => ({ ...data.start, program: 0, step: 1 }),
    draw({ bm, bn, bk, program, step }, data, width) {
      const { m, n, k, item } = data
      const hatch = data.hatch ||= `kl-explore-hatch-${++made}`
      const pastM = up(m, bm) * bm - m, pastN = up(n, bn) * bn - n, pastK = up(k, bk) * bk - k
      const scale = Math.min(1.6, (width - 60) / (k + pastK + n + pastN)), gap = 30, left = 6, top = 20
      const [kw, nw, kh, mh] = [k, n, k, m].map(size => size * scale), x = left + kw + pastK * scale + gap, y = top + kh + pastK * scale + gap
      const across = up(n, bn), row = Math.floor(program / across), column = program % across
      const fit = (at, size, end) => [at * scale, Math.min(size, end - at) * scale, Math.max(0, at + size - end) * scale]
      const [rowAt, rows, rowsPast] = fit(row * bm, bm, m), [colAt, cols, colsPast] = fit(column * bn, bn, n), [stepAt, deep, deepPast] = fit((step - 1) * bk, bk, k)
      const lines = range(up(m, bm) - 1, i => `M${x} ${y + (i + 1) * bm * scale}h${nw}`).concat(range(across - 1, i => `M${x + (i + 1) * bn * scale} ${y}v${mh}`))
      // The part of a tile that lies past the edge of its matrix: right of it and below it.
      const past = (x, y, wide, tall, right, below) =>
        (right ? hatched(hatch, x + wide, y, right, tall + below) : "") + (below ? hatched(hatch, x, y + tall, wide, below) : "")
      const body = [
        hatching(hatch),
        text(x, top - 7, `B, ${k} × ${n}`, "kl-t--soft"), text(left, y - 7, `A, ${m} × ${k}`, "kl-t--soft"), text(x, y - 7, `C, ${m} × ${n}`, "kl-t--soft"),
        rect(left, y, kw, mh, "kl-cell"), rect(x, top, nw, kh, "kl-cell"), rect(x, y, nw, mh, "kl-cell"),
        `<path class="kl-gridline" d="${lines.join("")}"/>`,
        rect(left, y + rowAt, kw, rows, "kl-now"), rect(x + colAt, top, cols, kh, "kl-now"),
        rect(left + stepAt, y + rowAt, deep, rows, "kl-own kl-c1"), rect(x + colAt, top + stepAt, cols, deep, "kl-own kl-c1"),
        rect(x + colAt, y + rowAt, cols, rows, "kl-own kl-c2"),
        past(left + stepAt, y + rowAt, deep, rows, deepPast, rowsPast), past(x + colAt, top + stepAt, cols, deep, colsPast, deepPast),
        past(x + colAt, y + rowAt, cols, rows, colsPast, rowsPast),
      ]
      const down = up(m, bm), loaded = (m * k * across + k * n * down) * item
      const to = (word, at, size, end) => run(word, at, Math.min(at + size, end) - 1)
      const [offK, offM, offN] = [step * bk - k, (row + 1) * bm - m, (column + 1) * bn - n]
      const off = [offK > 0 && `${count(offK, "column")} of A and ${count(offK, "row")} of B`, offM > 0 && `${count(offM, "row")} of A and C`, offN > 0 && `${count(offN, "column")} of B and C`].filter(Boolean)
      const masked = off.length ? ` Past the edge, and masked off: ${off.join("; ")}.` : ""
      const say = `Program ${program} of ${down * across} owns ${to("row", row * bm, bm, m)}, ${to("column", column * bn, bn, n)} of C. Step ${step} of ${up(k, bk)} ` +
        `loads ${to("column", (step - 1) * bk, bk, k)} of A and the same rows of B. Each element of A is read ${count(across, "time")}, each of B ${count(down, "time")}: ` +
        `${loaded.toLocaleString("en")} bytes in all, ${short(2 * m * n * k / loaded)} operations a byte.` + masked
      const bottom = y + mh + pastM * scale + 12, entries = [["kl-own kl-c1", "loaded in this step"], ["kl-now", "in its other steps"], ["kl-own kl-c2", "its tile of C"]]
      const key = legend(left, bottom, width, masked ? [...entries, [`#${hatch}`, "past the edge, masked off"]] : entries)
      const facts = { bytes: loaded, programs: down * across }
      return { body: body.concat(key.body), height: bottom + key.height, say, facts, label: `${bm} × ${bn}` }
    },
  }

  // ---- an online softmax: states are merged ----
  const merge = {
    controls: ({ values }) => [
      { name: "chunk", label: "Chunk", values: range(values.length, i => i + 1), unit: n => count(n, "score") },
      { name: "step", label: "Step", values: s => range(up(values.length, s.chunk), i => i + 1), unit: (n, s) => `${n} of ${up(values.length, s.chunk)}`, walk: true },
    ],
    start: data => ({ ...data.start, step: 1 }),
    steps({ values }, chunk) {
      const found = []
      let max = -Infinity, sum = 0
      for (let first = 0; first < values.length; first += chunk) {
        const part = values.slice(first, first + chunk), own = Math.max(...part)
        const ownSum = part.reduce((a, v) => a + Math.exp(v - own), 0), higher = Math.max(max, own)
        const factor = sum ? Math.exp(max - higher) : 0
        sum = sum * factor + ownSum * Math.exp(own - higher)
        max = higher
        found.push({ first, last: first + part.length - 1, own, ownSum, max, sum, factor })
      }
      return found
    },
    draw({ chunk, step }, data, width) {
      const { values } = data, steps = this.steps(data, chunk), now = steps[step - 1], before = steps[step - 2]
      const wide = Math.min(46, (width - 20) / values.length), high = 120, low = Math.min(0, ...values), top = Math.max(0, ...values), span = top - low || 1
      const y = v => 22 + high * (1 - (v - low) / span), body = []
      values.forEach((v, i) => {
        const state = i > now.last ? "kl-cell kl-cell--off" : i >= now.first ? "kl-own kl-c1" : "kl-own kl-c0"
        body.push(rect(4 + i * wide, Math.min(y(v), y(0)), wide - 3, Math.max(1, Math.abs(y(v) - y(0))), state)) // a score below 0 goes downwards
        if (wide > 24) body.push(text(4 + i * wide + wide / 2 - 1, 22 + high + 18, v, "kl-t--small kl-t--m"))
      })
      body.push(`<path class="kl-axisline" d="M4 ${y(0)}h${values.length * wide}"/>`, text(4 + values.length * wide + 2, y(0) + 4, "0", "kl-t--soft"))
      body.push(`<path class="kl-axisline" d="M4 ${y(now.max)}h${values.length * wide}"/>`, text(6, y(now.max) - 6, `maximum so far ${now.max}`, "kl-t--soft"))
      if (before && before.max !== now.max) body.push(`<path class="kl-gridline" d="M4 ${y(before.max)}h${values.length * wide}"/>`)
      const f = n => n.toFixed(4)
      const say = `Step ${step} of ${steps.length}: ${run("score", now.first, now.last)} ${now.first === now.last ? "has" : "have"} the maximum ${f(now.own)} and the sum ${f(now.ownSum)}. ` +
        (before ? (now.factor === 1 ? `The maximum ${f(now.max)} stays, so the old sum ${f(before.sum)} stays as it is, and the new one is scaled by ${f(Math.exp(now.own - now.max))}: ` : `The maximum grows to ${f(now.max)}, so the old sum ${f(before.sum)} is multiplied by ${f(now.factor)}: `) : "They are the first: ") +
        `${f(now.sum)} so far.`
      const key = legend(4, high + 52, width, [["kl-own kl-c1", "scores of this step"], ["kl-own kl-c0", "merged before"], ["kl-cell kl-cell--off", "still to come"]])
      const sums = this.sums(steps, now, before, high + 60 + key.height, width)
      return { body: body.concat(key.body, sums.body), height: high + 60 + key.height + sums.height, say }
    },
    // The sum as a bar: what of it was there before, shrunk to the new maximum, and what this step adds.
    sums(steps, now, before, y, width) {
      const longest = Math.max(...steps.map(step => Math.max(step.sum, step.ownSum))), scale = (width - 12) / longest
      const old = before ? before.sum * now.factor : 0, added = now.ownSum * Math.exp(now.own - now.max)
      const body = [text(4, y + 11, `the sum so far, ${now.sum.toFixed(4)}`, "kl-t--soft")]
      if (before) body.push(rect(4, y + 19, Math.max(1, old * scale), 18, "kl-own kl-c0"))
      body.push(rect(4 + old * scale, y + 19, Math.max(1, added * scale), 18, "kl-own kl-c1"))
      if (before) {
        const shrinks = now.factor < 1 ? `times ${now.factor.toFixed(4)}` : "and it stays"
        body.push(rect(4, y + 42, before.sum * scale, 12, "kl-idle"), text(4, y + 68, `the old sum, ${before.sum.toFixed(4)}, ${shrinks}`, "kl-t--soft"))
      }
      return { body, height: 74 }
    },
  }

  // ---- a roofline under which the reader moves a matrix product ----
  const powers = range(15, i => 2 ** i)
  const roofline = {
    controls: ({ roofs }) => [
      { name: "m", label: "M", values: powers }, { name: "n", label: "N", values: powers }, { name: "k", label: "K", values: powers },
      { name: "roof", label: "Element", values: roofs.map((_, i) => i), unit: i => roofs[i].name, choice: true },
    ],
    start: data => ({ ...data.start, roof: 0 }),
    draw({ m, n, k, roof }, { roofs, memory }, width, kept) {
      const { peak, item, name } = roofs[roof], flops = 2 * m * n * k, moved = item * (m * k + k * n + m * n), at = flops / moved
      const left = 46, right = Math.max(left + 120, width - 20), top = 16, base = 230
      const best = Math.max(...roofs.map(r => r.peak)), lowX = -2, highX = 4, highY = Math.ceil(Math.log10(best) * 2) / 2, lowY = highY - 5
      const x = v => left + (right - left) * (Math.log10(v) - lowX) / (highX - lowX), y = v => base - (base - top) * (Math.max(lowY, Math.log10(v)) - lowY) / (highY - lowY)
      const limit = v => Math.min(peak, v * memory / 1e3), ridge = 1e3 * peak / memory
      const line = [0.01, ridge, 1e4].map(v => `${x(v).toFixed(1)} ${y(limit(v)).toFixed(1)}`).join("L"), inside = Math.min(1e4, Math.max(.01, at))
      const ring = (at, rate) => { const cx = x(Math.min(1e4, Math.max(.01, at))); return `<path class="kl-line kl-c1" d="M${cx - 6} ${y(rate)}a6 6 0 1 0 12 0a6 6 0 1 0-12 0z"/>` }
      const body = [
        ...range(highX - lowX + 1, i => 10 ** (lowX + i)).map(v => text(x(v), base + 16, v, "kl-t--soft kl-t--m")),
        ...range(5, i => 10 ** (Math.ceil(lowY) + i)).filter(v => v <= 10 ** highY).map(v => `<path class="kl-gridline" d="M${left} ${y(v)}h${right - left}"/>` + text(left - 6, y(v) + 4, short(v), "kl-t--soft kl-t--e")),
        `<path class="kl-line kl-c0" d="M${line}"/>`, text(right - 2, y(peak) - 6, `${short(peak)} TFLOP/s, ${name}`, "kl-t--soft kl-t--e"),
        `<path class="kl-gridline" d="M${x(inside)} ${base}V${y(limit(inside))}"/>`,
        `<path class="kl-axisline kl-dash2" d="M${x(ridge)} ${base}V${y(peak)}"/>`, text(x(ridge) - 6, base - 6, `ridge: ${short(ridge)}`, "kl-t--soft kl-t--e"),
        ...(kept ? [ring(kept.spot.at, kept.spot.rate)] : []),
        `<path class="kl-own kl-c1" d="M${x(inside) - 6} ${y(limit(inside))}a6 6 0 1 0 12 0a6 6 0 1 0-12 0z"/>`,
      ]
      const axis = lines(width / 2, base + 36, width - 8, "operations a byte (logarithmic); upwards TFLOP/s", "kl-t--soft kl-t--m")
      body.push(...axis.body)
      const bytesUs = moved / (memory * 1e3), flopsUs = flops / (peak * 1e6), bound = bytesUs > flopsUs ? "memory" : "computing"
      const say = `${[m, n, k].map(size => size.toLocaleString("en")).join(" × ")}, ${name}: ${short(at)} operations a byte. Moving the three matrices once takes ${short(bytesUs)} µs, computing ${short(flopsUs)} µs: ` +
        `limited by ${bound}, ${short(Math.max(bytesUs, flopsUs))} µs at least, ${short(limit(at))} TFLOP/s at most${at < ridge ? `, ${short(100 * limit(at) / peak)}% of what the units can do` : ""}.`
      const facts = { operations: flops, time: Math.max(bytesUs, flopsUs) }
      return { body, height: base + 44 + axis.height, say, facts, label: `${[m, n, k].map(size => size.toLocaleString("en")).join(" × ")}, ${name}`, spot: { at, rate: limit(at) } }
    },
  }

  // ---- what all have in common ----
  const KINDS = { access, tiles, merge, roofline }

  class Explorer {
    constructor(figure) {
      this.figure = figure
      this.data = JSON.parse(figure.querySelector("[data-explore]").dataset.explore)
      this.kind = KINDS[this.data.kind]
      this.state = this.kind.start(this.data)
      this.say = element("p", { className: "kl-stepper__say", "aria-live": "polite", "aria-atomic": "true" })
      this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
      this.svg.setAttribute("role", "img")
      this.svg.setAttribute("class", "kl-svg")
      this.rows = this.kind.controls(this.data).map(each => this.control(each))
      this.more = element("p", { className: "kl-explore__more" })
      this.why = element("span", { role: "status" })
      this.against = element("span", {})
      this.more.append(this.why, this.against)
      this.cases = klCases[this.data.kind](this.data).map(each => ({ ...each, button: this.button(each.name, () => this.set(each.set)) })) // see explorer-cases.js
      this.link = klLink(figure, this.data.kind, () => this.state, given => this.take(given)) // see links.js
      const table = element("button", { type: "button", className: "kl-button", textContent: "Table" })
      table.setAttribute("aria-label", "Table of some cases")
      table.setAttribute("aria-expanded", "false")
      table.addEventListener("click", () => table.setAttribute("aria-expanded", figure.classList.toggle("kl-explore--table")))
      const keep = this.button("Compare with this", () => { this.kept = this.last; this.draw() })
      this.keep = keep
      const last = element("div", { className: "kl-explore__last" }, ...this.walk(), keep, this.link.box, table)
      const controls = element("div", { className: "kl-explore__controls" }, this.tries(), ...this.rows.map(row => row.box), last)
      controls.setAttribute("role", "group")
      controls.setAttribute("aria-label", this.data.caption || "What to change")
      this.stage = element("div", { className: "kl-explore__stage" })
      this.stage.append(this.svg)
      this.stage.dataset.kind = this.data.kind
      this.svg.addEventListener("click", event => {
        const box = this.svg.getBoundingClientRect(), picked = this.pick?.(event.clientX - box.left, event.clientY - box.top)
        if (picked) this.set(picked)
      })
      figure.prepend(element("div", { className: "kl-explore__live" }, controls, this.say, this.more, this.stage))
      figure.classList.add("kl-explore--live")
      new ResizeObserver(() => {
        if (this.stage.clientWidth === this.width) return
        this.room = 0
        this.draw()
      }).observe(this.stage)
      this.draw()
    }

    button(words, press) {
      const made = element("button", { type: "button", className: "kl-button", textContent: words })
      made.addEventListener("click", press)
      return made
    }

    // The cases of explorer-cases.js, in groups where they have one.
    tries() {
      const box = element("div", { className: "kl-explore__cases" })
      for (const group of new Set(this.cases.map(each => each.group))) {
        const words = element("span", { className: "kl-explore__group", textContent: `${group || "Try"}:` })
        const row = element("div", { role: "group" }, words, ...this.cases.filter(each => each.group === group).map(each => each.button))
        row.setAttribute("aria-label", `Cases to try${group ? `, ${group.toLowerCase()} memory` : ""}`)
        box.append(row)
      }
      return box
    }

    // Buttons for a control that is walked along, for a thumb.
    walk() {
      const along = this.rows.find(row => row.walk)
      if (!along) return []
      const go = by => () => {
        const all = this.values(along.values), at = all.indexOf(this.state[along.name]) + by
        if (at in all) this.set({ [along.name]: all[at] })
      }
      this.steps = [this.button("◀ Previous", go(-1)), this.button("Next ▶", go(1))]
      this.steps.forEach((button, i) => button.setAttribute("aria-label", `${["Previous", "Next"][i]} ${along.label.toLowerCase()}`))
      this.along = along
      return this.steps
    }

    set(some) {
      Object.assign(this.state, some)
      this.draw()
    }

    // What an address says, where the figure has it.
    take(given) {
      for (const { name, values } of this.rows) {
        const found = this.values(values).find(value => String(value) === given[name])
        if (found !== undefined) this.state[name] = found
      }
      if (this.stage) this.draw()
    }

    // The reader's case beside the kept one: a factor for each fact that both have.
    compared() {
      const part = ratio => Math.abs(1 / ratio - Math.round(1 / ratio)) < .005 ? `1/${Math.round(1 / ratio)}` : `${short(100 * ratio)}%`
      const times = ratio => Math.abs(ratio - 1) < .005 ? "the same" : ratio > 1 ? `${short(ratio)} times the` : `${part(ratio)} of the`
      const both = Object.keys(this.last.facts || {}).filter(name => name in this.kept.facts)
      if (!both.length || both.every(name => this.last.facts[name] === this.kept.facts[name])) return ""
      return ` Against ${this.kept.label}: ${both.map(name => `${times(this.last.facts[name] / this.kept.facts[name])} ${name}`).join(", ")}.`
    }

    // A slider, or, for a choice among few names, a list of them.
    control({ name, label, values, unit = String, choice = false, walk = false }) {
      const id = `kl-explore-${++made}`, output = element("output", {})
      const input = choice ? element("select", { id }) : element("input", { type: "range", id, min: 0, step: 1 })
      if (choice) input.append(...this.values(values).map((value, i) => element("option", { value: i, textContent: unit(value, this.state) })))
      else output.setAttribute("aria-hidden", "true")
      input.addEventListener(choice ? "change" : "input", () => {
        this.state[name] = this.values(values)[+input.value]
        this.draw()
      })
      const box = element("div", { className: "kl-stepper__slider" }, element("label", { htmlFor: id, textContent: label }), input, ...(choice ? [] : [output]))
      return { name, label, values, unit, input, output, box, choice, walk }
    }

    values(given) { return typeof given === "function" ? given(this.state) : given }

    draw() {
      for (const { name, values, unit, input, output, choice } of this.rows) {
        const all = this.values(values), last = all.length - 1
        if (!all.includes(this.state[name])) this.state[name] = all[last] // a change of another one left no room for it
        if (!choice) input.max = last
        input.value = all.indexOf(this.state[name])
        if (choice) continue
        output.value = unit(this.state[name], this.state)
        input.setAttribute("aria-valuetext", output.value)
      }
      this.width = this.stage.clientWidth
      if (!this.width) return
      const drawn = this.kind.draw(this.state, this.data, this.width, this.kept), { top, say } = drawn
      this.last = drawn
      this.kept ||= drawn
      this.pick = top && ((x, y) => y < top.height && top.pick(x))
      const height = drawn.height + (top ? top.height : 0)
      const body = top ? [...top.body, `<g transform="translate(0 ${top.height})">`, ...drawn.body, "</g>"] : drawn.body
      this.tell(drawn)
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`)
      this.svg.setAttribute("width", this.width)
      this.svg.setAttribute("height", height)
      this.svg.setAttribute("aria-label", say)
      this.svg.innerHTML = body.join("")
      if (this.say.textContent !== say) this.say.textContent = say
    }

    // Beside the sentence: which case this is and why it is one, how it compares, and an address for it.
    tell(drawn) {
      let why = ""
      for (const { button, set, why: words } of this.cases) {
        const here = Object.entries(set).every(([name, value]) => this.state[name] === value)
        button.setAttribute("aria-pressed", here)
        if (here) why = words
      }
      if (this.why.textContent !== why) this.why.textContent = why
      this.keep.hidden = !drawn.facts
      this.keep.setAttribute("aria-disabled", this.kept === drawn || drawn.label === this.kept.label)
      this.against.textContent = this.compared()
      if (this.steps) {
        const all = this.values(this.along.values), at = all.indexOf(this.state[this.along.name])
        this.steps[0].setAttribute("aria-disabled", at === 0)
        this.steps[1].setAttribute("aria-disabled", at === all.length - 1)
      }
      this.link.renew()
      this.stage.style.minHeight = `${this.room = Math.max(this.room || 0, drawn.height + (drawn.top ? drawn.top.height : 0))}px` // what stands below stays where it is
    }
  }

  window.klExplorers = { KINDS, short } // for tests
  klFigures("figure.kl-fig--explore:not(.kl-explore--live)", "kl-explores", figure => new Explorer(figure)) // see early.js
})()
