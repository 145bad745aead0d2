// The cliffs of an occupancy: how resident warps fall as registers grow, as a picture, in a sentence, and as cases that are
// worth a look (see occupancy.js). `occupancy` is its arithmetic.
(() => {
  "use strict"
  const NS = "http://www.w3.org/2000/svg"
  const warps = n => `${n} ${n === 1 ? "warp" : "warps"}`

  // How far the registers are from the next step of the stairs: upwards it costs a block, downwards it gives one.
  function nextSteps(occupancy, rules, { arch, threads, registers, shared }) {
    const at = count => occupancy(rules, arch, threads, count, shared).warps, here = at(registers)
    let up = registers + 1, down = registers - 1
    while (up <= rules.mostRegisters && at(up) === here) up++
    while (down >= 0 && at(down) === here) down--
    return {
      up: up <= rules.mostRegisters ? { registers: up, warps: at(up) } : null,
      down: down >= 0 ? { registers: down, warps: at(down) } : null,
    }
  }

  function words(found, registers) {
    const { up, down } = found, parts = []
    if (up) parts.push(`with ${up.registers} registers, ${up.registers - registers} more, ${up.warps ? `${warps(up.warps)} are left` : "it can no longer be launched"}`)
    if (down) parts.push(`with ${down.registers}, ${registers - down.registers} fewer, there would be ${warps(down.warps)}`)
    if (!parts.length) return "No number of registers changes that."
    const all = parts.join("; ")
    return `${all[0].toUpperCase()}${all.slice(1)}.`
  }

  // What a block may use, and one more of it.
  function cases(rules, arch) {
    const half = Math.floor(rules.gpus[arch].shared / 2) - rules.reserved
    return [
      { name: "64 registers", set: { threads: 256, registers: 64, shared: 0 } },
      { name: "65 registers", set: { threads: 256, registers: 65, shared: 0 } },
      { name: "64, of 1024 threads", set: { threads: 1024, registers: 64, shared: 0 } },
      { name: "65, of 1024 threads", set: { threads: 1024, registers: 65, shared: 0 } },
      ...(half <= rules.gpus[arch].most ? [
        { name: "half of the shared memory", set: { threads: 256, registers: 32, shared: half } },
        { name: "one byte more", set: { threads: 256, registers: 32, shared: half + 1 } },
      ] : []),
    ]
  }

  // The stairs: resident warps over registers, and the place where the reader stands. `pick` gets the registers of a click.
  function stairs(pick) {
    const svg = document.createElementNS(NS, "svg"), left = 34, top = 14, high = 92
    let right = 300, most = 255
    svg.setAttribute("class", "kl-svg kl-occupancy__stairs")
    svg.setAttribute("aria-hidden", "true") // the sentences say it
    svg.addEventListener("click", event => {
      const at = event.clientX - svg.getBoundingClientRect().left
      pick(Math.max(0, Math.min(most, Math.round((at - left) / (right - left) * most))))
    })
    const draw = (occupancy, rules, { arch, threads, registers, shared }, width) => {
      right = width - 8
      most = rules.mostRegisters
      const places = rules.gpus[arch].warps
      const x = count => left + (right - left) * count / most, y = n => top + high * (1 - n / places)
      const heights = Array.from({ length: most + 1 }, (_, count) => occupancy(rules, arch, threads, count, shared).warps)
      const path = heights.map((n, count) => `${count ? "L" : "M"}${x(Math.max(0, count - 1))} ${y(n)}L${x(count)} ${y(n)}`).join("")
      const text = (at, up, said, name) => `<text class="kl-t kl-t--soft ${name}" x="${at}" y="${up}">${said}</text>`
      const marks = [0, places / 2, places].map(n => `<path class="kl-gridline" d="M${left} ${y(n)}H${right}"/>${text(left - 5, y(n) + 4, n, "kl-t--e")}`)
      const below = [1, 64, 128, 192, most].map(count => text(x(count), top + high + 15, count, count === most ? "kl-t--e" : "kl-t--m"))
      svg.setAttribute("viewBox", `0 0 ${width} ${top + high + 36}`)
      svg.setAttribute("width", width)
      svg.setAttribute("height", top + high + 36)
      svg.innerHTML = [...marks, ...below, text(left, top + high + 31, "registers a thread; upwards resident warps", ""),
        `<path class="kl-line kl-c0" d="${path}"/>`, `<path class="kl-axisline kl-dash2" d="M${x(registers)} ${top}V${top + high}"/>`,
        `<circle class="kl-own kl-c1" cx="${x(registers)}" cy="${y(heights[registers])}" r="6"/>`].join("")
    }
    return { svg, draw }
  }

  window.klCliffs = { nextSteps, words, cases, stairs }
})()
