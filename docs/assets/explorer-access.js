// An explorer of a warp's addresses: sectors of global memory, banks of shared memory (see explorers.js).
(() => {
  "use strict"
  if (!window.klPhases) throw new Error("banks.js is not there, so no explorer of a warp's addresses is made: their tables stay")
  const { count, short, range, up, text, rect, owner, lines } = klParts
  const LANES = 32, BANKS = 32
  const phases = (address, size) => klPhases("read", size, new Map(range(LANES, lane => [lane, address(lane)]))) // see banks.js

  klKinds.access = {
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
})()
