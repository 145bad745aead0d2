// An explorer of the walk of one program of a tiled matrix product (see explorers.js).
(() => {
  "use strict"
  let made = 0
  const { count, short, range, up, text, rect, hatching, hatched, run, legend } = klParts
  klKinds.tiles = {
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
})()
