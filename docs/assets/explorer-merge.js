// An explorer of an online softmax: states are merged (see explorers.js).
(() => {
  "use strict"
  const { count, range, up, text, rect, run, legend } = klParts
  klKinds.merge = {
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
})()
