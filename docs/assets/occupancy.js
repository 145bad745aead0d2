// Makes controls of every occupancy calculator on the page (see kernels/figures/occupancy.py). The table below them says
// the same for the kernels of the site, without this script. Nothing is fetched.
(() => {
  "use strict"
  const WARP = 32
  const element = window.klElement
  const up = (value, unit) => Math.ceil(value / unit) * unit
  let made = 0

  // The arithmetic of kernels/inspect/occupancy.py.
  function occupancy(rules, arch, threads, registers, shared) {
    const gpu = rules.gpus[arch]
    const warps = Math.ceil(threads / WARP)
    const limits = { warps: Math.floor(gpu.warps / warps), blocks: gpu.blocks }
    const aWarp = up(registers * WARP, rules.unit)
    if (aWarp * up(warps, rules.partitions) > rules.registers) limits.registers = 0
    else if (aWarp) {
      const aPartition = Math.floor(rules.registers / rules.partitions / aWarp)
      limits.registers = Math.floor(aPartition * rules.partitions / warps)
    }
    const aBlock = up(shared + rules.reserved, rules.sharedUnit)
    limits["shared memory"] = aBlock <= gpu.most + rules.reserved ? Math.floor(gpu.shared / aBlock) : 0
    const blocks = Math.min(...Object.values(limits))
    const by = Object.keys(limits).filter(name => limits[name] === blocks)
    return { blocks, warps: blocks * warps, most: gpu.warps, limits, by }
  }

  function build(place) {
    let ready = false, linked = false
    const { limits: rules, kernels } = JSON.parse(place.dataset.occupancy)
    const id = `kl-occupancy-${++made}`
    const form = element("form", { class: "kl-occupancy__form", "aria-label": "Occupancy calculator" })
    form.addEventListener("submit", event => event.preventDefault())

    const field = (name, words, control) => {
      control.id = `${id}-${name}`
      form.append(element("label", { for: control.id }, words), control)
      return control
    }
    const options = pairs => pairs.map(([value, words]) => element("option", { value }, words))
    const kernel = field("kernel", "kernel", element("select"))
    kernel.append(...options([...kernels.map((each, i) => [String(i), each.name]), ["", "numbers of my own"]]))
    const arch = field("arch", "GPU", element("select"))
    arch.append(...options(Object.keys(rules.gpus).map(each => [each, `sm_${each}`])))
    arch.value = "90"

    const number = (name, words, least, most, step) => {
      const typed = field(name, words, element("input", { type: "number", min: least, max: most, step: "1" }))
      const slider = element("input", { type: "range", min: up(least, step), max: most, step, "aria-label": `${words}, as a slider` })
      form.append(slider)
      const set = value => { typed.value = value; slider.value = value }
      const read = () => Math.min(most, Math.max(least, Math.round(Number(typed.value)) || least))
      // While a number that no GPU takes is being typed, the answer says which one it is about.
      const instead = () => read() === Number(typed.value) && typed.value !== "" ? "" : `This is for ${read()} ${words}; the field takes ${least} to ${most}. `
      const pair = { set, read, instead }
      typed.addEventListener("input", () => { slider.value = pair.read(); own() })
      typed.addEventListener("change", () => { set(pair.read()); show() })
      slider.addEventListener("input", () => { typed.value = slider.value; own() })
      return pair
    }
    const most = Math.max(...Object.values(rules.gpus).map(gpu => gpu.most))
    const threads = number("threads", "threads a block", 1, rules.mostThreads, 32)
    const registers = number("registers", "registers a thread", 0, rules.mostRegisters, 1)
    const shared = number("shared", "shared bytes a block", 0, most, 128)

    const answer = element("output", { class: "kl-occupancy__answer", "aria-live": "polite" })
    const tries = element("div", { class: "kl-explore__cases kl-occupancy__cases", role: "group", "aria-label": "Cases to try" })
    const cliff = element("p", { class: "kl-occupancy__cliff", role: "status" })
    const stairs = klCliffs.stairs(count => { registers.set(count); own() }) // see occupancy-cliffs.js
    const slots = element("div", { class: "kl-occupancy__slots", "aria-hidden": "true" })
    const list = element("table", { class: "kl-table kl-occupancy__limits" })
    const chosen = () => ({ arch: arch.value, threads: threads.read(), registers: registers.read(), shared: shared.read() })
    const put = set => { threads.set(set.threads); registers.set(set.registers); shared.set(set.shared); own() }
    const link = klLink(place, "occupancy", chosen, given => { // see links.js
      if (given.arch in rules.gpus) arch.value = given.arch
      for (const [name, pair] of Object.entries({ threads, registers, shared })) if (/^\d+$/.test(given[name])) { pair.set(given[name]); pair.set(pair.read()) }
      kernel.value = ""
      linked = true
      if (ready) show()
    })
    place.append(tries, form, answer, cliff, stairs.svg, slots, list, link.box)

    function offer() {
      const buttons = klCliffs.cases(rules, arch.value).map(each => {
        const made = element("button", { type: "button", class: "kl-button" }, each.name)
        made.addEventListener("click", () => put(each.set))
        made.set = each.set
        return made
      })
      tries.replaceChildren(element("span", { class: "kl-explore__group" }, "Try:"), ...buttons)
    }

    function own() { kernel.value = ""; show() }

    function take() {
      if (kernel.value !== "") {
        const chosen = kernels[Number(kernel.value)]
        const uses = chosen.uses[arch.value]
        threads.set(chosen.threads)
        if (uses) { registers.set(uses[0]); shared.set(uses[1]) }
      }
      show()
    }

    function show() {
      const found = occupancy(rules, arch.value, threads.read(), registers.read(), shared.read())
      const share = Math.round(100 * found.warps / found.most)
      answer.value = [threads, registers, shared].map(each => each.instead()).join("") + (found.blocks
        ? `${found.blocks} ${found.blocks === 1 ? "block" : "blocks"} at once: ${found.warps} of ${found.most} warps, ${share}%. ` +
          `One more is not possible: ${found.by.map(name => rules.reasons[name]).join(", and ")}.`
        : `Not even one block can be launched: ${found.by.join(" and ")}.`)
      const here = chosen()
      const steps = klCliffs.nextSteps(occupancy, rules, here)
      cliff.textContent = klCliffs.words(steps, here.registers)
      if (place.clientWidth) stairs.draw(occupancy, rules, here, Math.min(640, place.clientWidth - 28))
      for (const button of tries.querySelectorAll("button"))
        button.setAttribute("aria-pressed", String(Object.entries(button.set).every(([name, value]) => here[name] === value)))
      link.renew()
      const inEach = found.blocks ? found.warps / found.blocks : 1
      slots.replaceChildren(...Array.from({ length: found.most }, (_, i) =>
        element("span", i < found.warps ? { class: `kl-occupancy__warp kl-occupancy__warp--${Math.floor(i / inEach) % 2}` } : { class: "kl-occupancy__free" })))
      const rows = Object.entries(found.limits).map(([name, blocks]) =>
        element("tr", found.by.includes(name) ? { class: "kl-marked" } : {},
          element("th", { scope: "row" }, name), element("td", { class: "kl-num" }, String(blocks))))
      list.replaceChildren(
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "resource"), element("th", { scope: "col", class: "kl-num" }, "blocks that it allows"))),
        element("tbody", {}, ...rows))
    }

    kernel.addEventListener("change", take)
    arch.addEventListener("change", () => { offer(); take() })
    offer()
    ready = true
    linked ? show() : take()
    let width = place.clientWidth
    new ResizeObserver(() => {
      if (place.clientWidth === width) return
      width = place.clientWidth
      show()
    }).observe(place)
  }

  klEach(".kl-occupancy:empty", build) // see early.js
  window.klOccupancy = occupancy // for the test that compares it with the Python
})()
