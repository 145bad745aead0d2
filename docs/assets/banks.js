// How a warp's request of shared memory goes over the banks: the rule of kernels/trace/requests.py, for the stepper and
// the explorers.
(() => {
  "use strict"
  const WARP = 32, BANKS = 32, BANK_BYTES = 4

  // Whether all lanes ask for what lane ^ far asks for; lanes that do not take part do not matter.
  function inPairs(lanes, far) {
    const asked = new Map()
    for (const [lane, address] of lanes) {
      const pair = Math.floor(lane / (2 * far)) * far + lane % far
      if (asked.has(pair) && asked.get(pair) !== address) return false
      asked.set(pair, address)
    }
    return true
  }

  // The phases of a request, one after the other. In each stands for every bank what it must deliver: a map from a word to
  // the lanes that ask for it. Atomics on one word take turns, so that there each lane has a word of its own.
  //
  // `kind` is "read", "write" or "update", `size` the bytes a lane, `lanes` a map from a lane to its address. A phase serves
  // 32 lanes, or 16 of 8 bytes, or 8 of 16 bytes; twice as many where they read in pairs.
  window.klPhases = (kind, size, lanes) => {
    const words = Math.max(1, size / BANK_BYTES)
    const twice = kind === "read" && words > 1 && (inPairs(lanes, 1) || inPairs(lanes, 2))
    const atOnce = Math.max(1, WARP / words) * (twice ? 2 : 1), phases = new Map()
    for (const [lane, address] of lanes) {
      const phase = Math.floor(lane / atOnce)
      if (!phases.has(phase)) phases.set(phase, Array.from({ length: BANKS }, () => new Map()))
      for (let word = Math.floor(address / BANK_BYTES); word * BANK_BYTES < address + size; word++) {
        const bank = phases.get(phase)[(word % BANKS + BANKS) % BANKS], key = kind === "update" ? `${word} ${lane}` : word
        bank.set(key, [...(bank.get(key) || []), lane])
      }
    }
    return [...phases].sort(([a], [b]) => a - b).map(([, banks]) => banks)
  }
})()
