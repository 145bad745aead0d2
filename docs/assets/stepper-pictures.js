// The pictures of a stepper: its steps in a row, the lanes of a warp, its buffers, and what the marks mean. They show the
// block, the step and the thread that the stepper stands at.
(() => {
  "use strict"
  const element = window.klElement
  const { WARP, READ, WRITE, ATOMIC, BARRIER, VERB, NOUN, count } = window.klSteps

  // Sorted numbers as "0–7, 9": whole when they are few runs, else the first and how many follow.
  function spans(numbers) {
    const runs = []
    for (const n of numbers) {
      const last = runs[runs.length - 1]
      if (last && n === last[1] + 1) last[1] = n
      else runs.push([n, n])
    }
    const texts = runs.slice(0, 4).map(([a, b]) => a === b ? `${a}` : `${a}–${b}`)
    return texts.join(", ") + (runs.length > 4 ? ` and ${runs.length - 4} more` : "")
  }

  // A mark inside the box at (x, y) with side c: told apart by shape, its size says whose it is.
  function mark(kind, x, y, c, size) {
    const mx = x + c / 2, my = y + c / 2, r = c * size
    if (kind === READ) return `M${mx - r} ${my}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0-${2 * r} 0z`
    if (kind === WRITE) return `M${mx - r} ${my - r}h${2 * r}v${2 * r}h-${2 * r}z`
    if (kind === ATOMIC) return `M${mx} ${my - 1.2 * r}l${1.2 * r} ${1.2 * r}l-${1.2 * r} ${1.2 * r}l-${1.2 * r}-${1.2 * r}z`
    if (kind === BARRIER) return `M${mx - r / 2} ${my - r}v${2 * r}M${mx + r / 2} ${my - r}v${2 * r}`
    return `M${mx - r} ${my}h${2 * r}m-${r / 2}-${r / 2}l${r / 2} ${r / 2}l-${r / 2} ${r / 2}`
  }
  const cross = (x, y, c) => `M${x + c * .3} ${y + c * .3}l${c * .4} ${c * .4}m0-${c * .4}l-${c * .4} ${c * .4}`
  const box = (x, y, w, h = w) => `M${x} ${y}h${w}v${h}h-${w}z`
  const notch = (x, y, c) => `M${x + c - 1} ${y + c * .66}v${c * .34 - 1}h-${c * .34 - 1}z` // a corner cut: written before
  const SHAPES = ["read", "write", "atomic", "barrier", "exchange"]

  // Collects paths by class, so that a thousand cells are a handful of elements.
  class Sheet {
    constructor() { this.paths = new Map(); this.texts = [] }
    add(name, path) { this.paths.set(name, (this.paths.get(name) || "") + path) }
    text(x, y, words, name = "") { this.texts.push(`<text class="kl-t ${name}" x="${x}" y="${y}">${words}</text>`) }
    draw(svg, width, height, label) {
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`)
      svg.setAttribute("width", width)
      svg.setAttribute("height", height)
      svg.setAttribute("aria-label", label)
      const paths = [...this.paths].map(([name, path]) => `<path class="${name}" d="${path}"/>`)
      svg.innerHTML = paths.join("") + this.texts.join("")
    }
  }

  function picture(name) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
    svg.setAttribute("class", name)
    svg.setAttribute("role", "img")
    return svg
  }

  // All steps in a row: a barrier is a line from top to bottom, and what the chosen thread takes part in is large.
  function drawTrack(stepper) {
    const sheet = new Sheet(), n = stepper.steps.length, width = stepper.width, pitch = width / n, c = 14
    const wide = Math.max(10, pitch), here = (stepper.step + .5) * pitch - wide / 2
    sheet.add("kl-now", box(Math.max(1, Math.min(width - wide - 1, here)), 1, wide, 20))
    stepper.steps.forEach((step, i) => {
      const x = (i + .5) * pitch
      if (step.kind === BARRIER) sheet.add("kl-bar-line", `M${x} 0v22`)
      else if (pitch > 3) {
        const mine = step.on.has(stepper.thread)
        const size = (mine ? .36 : .14) * Math.min(1, pitch / 12)
        sheet.add(`kl-m kl-m--${SHAPES[step.kind]}${mine ? " kl-m--me" : " kl-m--far"}`, mark(step.kind, x - c / 2, 4, c, size))
      }
    })
    sheet.draw(stepper.track, width, 22, "")
  }

  function drawLanes(stepper) {
    const step = stepper.now, sheet = new Sheet(), first = stepper.warp * WARP
    const c = stepper.laneWidth = Math.min(22, (stepper.width - 4) / WARP), y = 18
    const every = c < 15 ? 8 : 4
    for (let lane = 0; lane < Math.min(WARP, stepper.threads - first); lane++) {
      const thread = first + lane, x = 2 + lane * c
      const on = step.on.has(thread), off = step.off.has(thread)
      sheet.add(on ? "kl-cell" : "kl-cell kl-cell--off", box(x + 1, y, c - 2))
      if (on) sheet.add(`kl-m kl-m--${SHAPES[step.kind]}${thread === stepper.thread ? " kl-m--me" : ""}`, mark(step.kind, x + 1, y, c - 2, .3))
      if (off) sheet.add("kl-m kl-m--masked", cross(x + 1, y, c - 2))
      if (thread === stepper.thread) {
        sheet.add("kl-me", box(x, y - 1, c))
        sheet.add("kl-me-arrow", `M${x + c / 2 - 4} ${y + c + 7}h8l-4-6z`)
      }
      if (lane % every === 0 || lane === WARP - 1) sheet.text(x + c / 2, 12, lane, "kl-t--soft kl-t--m")
    }
    const left = stepper.threads - first
    stepper.laneTitle.replaceChildren(element("strong", { textContent: `warp ${stepper.warp}` }), ` ${left < WARP ? `${left} lanes; the block ends here` : "32 lanes"}`)
    const doing = step.kind === BARRIER ? "at the barrier" : step.kind > BARRIER ? "exchanging" : VERB[step.kind].replace(/s$/, "ing").replace("writeing", "writing").replace("updateing", "updating")
    const lanes = stepper.members(step.on).map(t => t % WARP).sort((a, b) => a - b)
    sheet.draw(stepper.lanes, 4 + WARP * c, y + c + 9, `Lanes of warp ${stepper.warp}: ${lanes.length ? `${spans(lanes)} ${doing}` : "none takes part"}; lane ${stepper.thread % WARP} is chosen`)
  }

  // The position to look at: what the chosen thread, else its warp, else anybody touches at this step, or at the last
  // one before, or the first after. Vectors of one length are looked at in the same place.
  function focusOf(stepper, buffer) {
    const alike = other => other === buffer || buffer.line && other.line && other.count === buffer.count
    const before = stepper.steps.slice(0, stepper.step + 1).reverse(), after = stepper.steps.slice(stepper.step + 1)
    for (const who of [map => map.get(stepper.thread), map => map.get(stepper.members(map)[0]), map => [...map.values()][0]])
      for (const step of [...before, ...after]) {
        if (step.buffer < 0 || !alike(stepper.buffers[step.buffer])) continue
        const at = (who(step.on) || who(step.off) || []).map(e => stepper.buffers[step.buffer].position(e)).find(p => p >= 0)
        if (at !== undefined) return at
      }
    return 0
  }

  // How far past a vector's end some step of any block reaches, masked off or not.
  function reachOf(stepper, buffer, number) {
    if (!buffer.line || !buffer.count || buffer.strides.some((stride, axis) => buffer.shape[axis] > 1 && stride !== 1)) return 0
    let last = buffer.count - 1
    for (const block of stepper.blocks)
      for (const step of block.steps)
        if (step.buffer === number)
          for (const elements of [...step.on.values(), ...step.off.values()]) for (const e of elements) last = Math.max(last, e)
    return last + 1 - buffer.count
  }

  // Which rows and columns of a buffer are drawn: all of a small one, else those around the chosen thread; and how many
  // places past its end, for which there is room at every step: the rest of the last row, or one row.
  function frameOf(stepper, { buffer, reach }) {
    const columns = buffer.line ? Math.max(1, Math.min(stepper.width < 480 ? 16 : 32, buffer.count + reach)) : buffer.width
    const past = Math.min(reach, columns - buffer.count % columns)
    const rows = buffer.line ? Math.ceil((buffer.count + past) / columns) : buffer.height
    const tall = buffer.line ? 12 : 40, wide = 40, part = buffer.line ? 8 : 32
    const at = focusOf(stepper, buffer), focus = { row: Math.floor(at / columns), column: at % columns }
    const row = rows > tall ? Math.floor(focus.row / part) * part : 0
    const column = columns > wide ? Math.floor(focus.column / 32) * 32 : 0
    const height = Math.min(rows - row, rows > tall ? part : tall)
    return { columns, rows, row, column, height, past, width: Math.min(columns - column, columns > wide ? 32 : wide) }
  }

  function drawBuffer(stepper, view, number) {
    const { buffer } = view, step = stepper.now, sheet = new Sheet()
    view.reach ??= reachOf(stepper, buffer, number)
    const f = frameOf(stepper, view)
    const left = 8 + 7 * String(Math.max(buffer.line ? buffer.count : buffer.height, 10)).length, top = 16
    const room = f.height > 12 && stepper.width > 700 ? (stepper.width - 28) / 2 : stepper.width
    const c = Math.max(7, Math.min(buffer.line ? 20 : 16, Math.floor((room - left - 4) / Math.max(1, buffer.line ? f.columns : f.width))))
    const cell = position => {
      const row = Math.floor(position / f.columns) - f.row, column = position % f.columns - f.column
      if (position < 0 || row < 0 || row >= f.height || column < 0 || column >= f.width) return null
      return [left + column * c, top + row * c]
    }
    const isPast = e => e >= buffer.count && e < buffer.count + f.past
    const put = (name, e, path) => { const at = cell(isPast(e) ? e : buffer.position(e)); if (at) sheet.add(name, path(...at)); return at }
    for (let row = 0; row < f.height; row++) {
      for (let column = 0; column < f.width; column++) {
        const position = (row + f.row) * f.columns + column + f.column
        if (position >= buffer.count) continue
        sheet.add("kl-cell", box(left + column * c + .5, top + row * c + .5, c - 1))
      }
      if (f.height <= 12 || (row + f.row) % 8 === 0 || row === f.height - 1)
        sheet.text(left - 5, top + (row + .5) * c + 4, buffer.line ? (row + f.row) * f.columns : row + f.row, "kl-t--soft kl-t--e")
    }
    for (let column = 0; column < f.width; column++)
      if ((column + f.column) % 8 === 0 || column === f.width - 1 && column % 8 > 2) sheet.text(left + (column + .5) * c, 11, buffer.line ? `+${column}` : column + f.column, "kl-t--soft kl-t--m")
    for (const old of stepper.steps.slice(0, stepper.step))
      if (old.buffer === number && (old.kind === WRITE || old.kind === ATOMIC))
        for (const elements of old.on.values())
          for (const e of elements) {
            put("kl-cell--written", e, (x, y) => box(x + .5, y + .5, c - 1))
            put("kl-notch", e, (x, y) => notch(x, y, c))
          }
    for (const other of stepper.threads ? stepper.steps : [])
      if (other.buffer === number && other !== step)
        for (const e of other.on.get(stepper.thread) || []) put("kl-cell--mine", e, (x, y) => box(x + 2, y + 2, c - 4))
    let outside = 0, unseen = 0
    if (step.buffer === number) {
      const shape = SHAPES[step.kind]
      for (const [thread, elements] of step.on) {
        const near = !stepper.threads || Math.floor(thread / WARP) === stepper.warp, me = stepper.threads && thread === stepper.thread
        for (const e of elements) {
          if (isPast(e)) put("kl-cell kl-cell--past", e, (x, y) => box(x + .5, y + .5, c - 1))
          if (me) put("kl-me", e, (x, y) => box(x, y, c))
          const seen = put(`kl-m kl-m--${shape}${me ? " kl-m--me" : near ? "" : " kl-m--far"}`, e, (x, y) => mark(step.kind, x, y, c, near ? .3 : .13))
          if (buffer.position(e) < 0) outside++
          else if (near && !seen) unseen++
        }
      }
      for (const [thread, elements] of step.off)
        for (const e of elements) {
          if (isPast(e)) put("kl-cell kl-cell--past", e, (x, y) => box(x + .5, y + .5, c - 1))
          if (!stepper.threads || Math.floor(thread / WARP) === stepper.warp) put("kl-m kl-m--masked", e, (x, y) => cross(x, y, c))
          if (stepper.threads && thread === stepper.thread) put("kl-me", e, (x, y) => box(x, y, c))
        }
    }
    view.at = (x, y) => {
      const column = Math.floor((x - left) / c), row = Math.floor((y - top) / c)
      if (column < 0 || row < 0 || column >= f.width || row >= f.height) return -1
      return (row + f.row) * f.columns + column + f.column
    }
    const size = buffer.shape.length > 1 ? buffer.shape.join(" × ") : count(buffer.count, "element")
    const notes = [stepper.plain ? size : `${buffer.space}, ${size}`]
    const last = Math.min(buffer.count, (f.row + f.height) * f.columns) - 1
    if (buffer.line && f.height < f.rows) notes.push(f.row * f.columns === last ? `element ${last} is drawn` : `elements ${f.row * f.columns}–${last} are drawn`)
    if (!buffer.line && (f.height < f.rows || f.width < f.columns))
      notes.push(`rows ${f.row}–${f.row + f.height - 1}, columns ${f.column}–${f.column + f.width - 1} are drawn`)
    if (unseen) notes.push(`${unseen} more touched outside this part`)
    view.title.replaceChildren(element("strong", { textContent: buffer.name }), ` ${notes.join("; ")}`)
    if (outside) view.title.append(" ", element("strong", { className: "kl-stepper__outside", textContent: `${count(outside, "access").replace("accesss", "accesses")} out of bounds` }))
    view.box.classList.toggle("kl-stepper__buffer--now", step.buffer === number)
    sheet.draw(view.svg, left + f.width * c + 2, top + f.height * c + 2, `${buffer.name}, ${notes.join("; ")}${step.buffer === number ? `; ${NOUN[step.kind]} now` : ""}`)
  }

  function legend(stepper) {
    const item = (path, words) =>
      `<span><svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">${path.map(([n, d]) => `<path class="${n}" d="${d}"/>`).join("")}</svg>${words}</span>`
    const frame = ["kl-cell", box(.5, .5, 15)]
    const kinds = new Set(stepper.blocks.flatMap(block => block.steps.map(step => step.kind)))
    const items = [READ, WRITE, ATOMIC].filter(kind => kinds.has(kind)).map(kind =>
      item([frame, [`kl-m kl-m--${SHAPES[kind]}`, mark(kind, 0, 0, 16, .3)]], NOUN[kind]))
    if (stepper.threads) items.push(
      item([["kl-me", box(1, 1, 14)]], "chosen thread"),
      item([frame, ["kl-cell--mine", box(2, 2, 12)]], "its element at another step"),
      item([frame, ["kl-m kl-m--read kl-m--far", mark(READ, 0, 0, 16, .13)]], "small: another warp"))
    const wrote = step => step.kind === WRITE || step.kind === ATOMIC
    if (stepper.blocks.some(block => block.steps.slice(0, -1).some(wrote))) items.push(item([["kl-cell--written", box(.5, .5, 15)], ["kl-notch", notch(0, 0, 16)]], "written before"))
    if (stepper.blocks.some(block => block.steps.some(step => step.off.size)))
      items.push(item([frame, ["kl-m kl-m--masked", cross(0, 0, 16)]], "masked off"))
    if (stepper.threads) items.push(item([["kl-cell kl-cell--off", box(.5, .5, 15)]], "lane takes no part"))
    items.push(`<span class="kl-stepper__keys">keys, when the picture has the focus: ← → step${stepper.threads ? ", ↑ ↓ thread" : ""}, space plays</span>`)
    return element("p", { className: "kl-stepper__legend", innerHTML: items.join(" ") })
  }

  window.klPictures = { picture, spans, drawTrack, drawLanes, drawBuffer, legend }
})()
