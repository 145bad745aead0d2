// An explorer of a roofline under which the reader moves a matrix product (see explorers.js).
(() => {
  "use strict"
  const { short, range, text, lines } = klParts
  const powers = range(15, i => 2 ** i)
  klKinds.roofline = {
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
})()
