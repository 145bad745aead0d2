// Reads results files of kernel-bench that the reader drops (see kernels/figures/your_gpu.py), checks them against the
// published schema, and draws them over ours. Nothing is sent anywhere.
(() => {
  "use strict"
  const MOST_BYTES = 20e6 // of all files together
  const MOST_SPEED = 1e9 // TFLOP/s or GB/s: what is faster is no measurement, and has no place on an axis
  const element = window.klElement
  const short = n => n === null || n === undefined ? "—" : n >= 1000 ? Math.round(n).toLocaleString("en") : String(+n.toPrecision(3))
  // As shape_text of kernels/figures/html.py writes it.
  const shapeText = shape => shape.map(size => size.toLocaleString("en")).join(" × ") || "scalar"
  const key = one => `${one.op} ${one.shape.join("×")} ${one.dtype}`

  // ---- the part of JSON Schema that the published schema uses ----
  const TYPES = {
    string: v => typeof v === "string", number: v => Number.isFinite(v), integer: v => Number.isInteger(v), boolean: v => typeof v === "boolean",
    null: v => v === null, array: v => Array.isArray(v), object: v => typeof v === "object" && v !== null && !Array.isArray(v),
  }
  const shown = v => v === undefined ? "nothing" : v === Infinity || v === -Infinity ? "a number that is too large" : JSON.stringify(v).slice(0, 40)

  // The first place where a value does not fit, as a sentence; null where it fits.
  function misfit(value, schema, root, at = "") {
    if (schema.$ref) return misfit(value, schema.$ref.slice(2).split("/").reduce((s, name) => s[name], root), root, at)
    const place = at || "the whole file"
    if (schema.anyOf) {
      const all = schema.anyOf.map(each => misfit(value, each, root, at))
      return all.includes(null) ? null : all[0]
    }
    if ("const" in schema && value !== schema.const) return `${place} is ${shown(value)}, and ${shown(schema.const)} is what this page reads`
    if (schema.enum && !schema.enum.includes(value)) return `${place} is ${shown(value)}, and one of ${schema.enum.map(shown).join(", ")} would be right`
    if (schema.type && !TYPES[schema.type](value)) return `${place} is ${shown(value)}, and should be of the type ${schema.type}`
    if (schema.items && Array.isArray(value))
      for (let i = 0; i < value.length; i++) {
        const found = misfit(value[i], schema.items, root, `${at}[${i}]`)
        if (found) return found
      }
    if (TYPES.object(value) && (schema.properties || schema.required || "additionalProperties" in schema)) {
      for (const name of schema.required || []) if (!Object.hasOwn(value, name)) return `${place} has no ${shown(name)}`
      for (const [name, inner] of Object.entries(value)) {
        const known = Object.hasOwn(schema.properties || {}, name) && schema.properties[name], where = at ? `${at}.${name}` : name
        if (!known && schema.additionalProperties === false) return `${place} has ${shown(name)}, which no results file has`
        const rule = known || (typeof schema.additionalProperties === "object" ? schema.additionalProperties : null)
        const found = rule && misfit(inner, rule, root, where)
        if (found) return found
      }
    }
    return null
  }

  // The text of a file; `>` of Windows' own shell writes two bytes a sign, and says so in the first two.
  async function textOf(file) {
    const bytes = await file.arrayBuffer(), [first, second] = new Uint8Array(bytes)
    const name = first === 0xff && second === 0xfe ? "utf-16le" : first === 0xfe && second === 0xff ? "utf-16be" : "utf-8"
    return new TextDecoder(name).decode(bytes)
  }

  // A file's document, or an Error whose message is a sentence.
  async function documentOf(file, schema) {
    let value, text
    try {
      text = await textOf(file)
    } catch {
      throw new Error(`${file.name} cannot be read; a folder cannot be dropped, its files can.`)
    }
    if (!text.trim()) throw new Error(`${file.name} is empty. Drop the file that kernel-bench wrote, results/local/add.json say.`)
    try {
      value = JSON.parse(text)
    } catch (error) {
      throw new Error(`${file.name} is no JSON: ${error.message}. Drop the file that kernel-bench wrote, results/local/add.json say.`)
    }
    const version = schema.$defs?.Document?.properties?.schema_version?.const
    if (TYPES.object(value) && "schema_version" in value && value.schema_version !== version)
      throw new Error(`${file.name} has the schema version ${shown(value.schema_version)}, and this page reads ${version}. Read the page of the version that wrote the file.`)
    const found = misfit(value, schema, schema)
    if (found) throw new Error(`${file.name} is no results file of kernel-bench: ${found}.`)
    return { ...value, cases: value.cases ?? [], limits: value.limits ?? [] } // as kernel-bench reads a file without them
  }

  // ---- what is drawn ----
  // What the operator launches by itself, measured as our records are.
  const like = record => record.ours && record.implementation === "triton" && record.cache === "cold" && record.timing === "graph"

  function compared(documents, ours) {
    const known = new Map(ours.map(one => [key(one), one])), best = new Map()
    let others = 0, otherwise = 0
    for (const each of documents)
      for (const record of each.cases) {
        if (!like(record) || record.status !== "ok" || !(record.median_us > 0)) otherwise++
        else if (!known.has(key(record))) others++
        else if (!(best.get(key(record))?.median_us <= record.median_us)) best.set(key(record), record)
      }
    return { others, otherwise, rows: [...best].map(([name, record]) => ({ record, our: known.get(name) })) }
  }

  // A group of rows an operator; the ratio comes first, since a phone shows three columns.
  function table(rows, theirs, gpu) {
    const head = ["shape", "yours ÷ ours", "yours, µs", "ours, µs", "yours, of a copy", "ours, of a copy"]
    const share = part => part ? `${short(100 * part)}%` : "—"
    const line = ({ record, our }) => [short(record.median_us / our.us), short(record.median_us), short(our.us), share(record.fraction_of_limit), share(our.share)]
    const number = (name, words) => element(name, { textContent: words, className: "kl-num" })
    const body = [...new Set(rows.map(row => row.record.op))].map(op => element("tbody", {},
      element("tr", { className: "kl-group" }, Object.assign(element("th", { textContent: op, colSpan: head.length }), { scope: "rowgroup" })),
      ...rows.filter(row => row.record.op === op).map(row => element("tr", {},
        Object.assign(element("th", { textContent: `${shapeText(row.record.shape)} ` }, element("small", { textContent: row.record.dtype })), { scope: "row" }),
        ...line(row).map(words => number("td", words))))))
    return element("div", { className: "kl-scroll", tabIndex: 0, role: "region", "aria-label": "Your measurements beside ours" },
      element("table", { className: "kl-table" },
        element("caption", {}, element("span", { textContent: `Yours, on ${theirs}, beside ours, on ${gpu}: median times, and shares of the copy rate that was measured in the same run` })),
        element("thead", {}, element("tr", {}, ...head.map((words, i) => Object.assign(element("th", { textContent: words, className: i ? "kl-num" : "" }), { scope: "col" })))),
        ...body))
  }

  // The marks of the plot: ours are round, yours square.
  const round = (x, y) => `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0-8 0z`, square = (x, y) => `M${x - 4} ${y - 4}h8v8h-8z`

  function legend(theirs, gpu) {
    const mark = (path, name, dash) => `<svg class="kl-yours__key" width="34" height="14" aria-hidden="true"><path class="kl-line ${name} ${dash}" d="M0 7H34"/><path class="kl-own ${name}" d="${path(17, 7)}"/></svg>`
    const entry = (markup, words) => {
      const one = element("span", { innerHTML: markup })
      one.append(words)
      return one
    }
    return element("p", { className: "kl-yours__legend" }, entry(mark(round, "kl-c0", ""), `${gpu} (ours)`), entry(mark(square, "kl-c1", "kl-dash1"), `${theirs} (yours)`))
  }

  // 1, 2 and 5 times a power of ten, from one exponent to another; where they would stand too close, powers alone.
  function ticks(low, high, room) {
    const all = []
    for (let power = Math.floor(low); power <= high; power++)
      for (const step of [1, 2, 5]) {
        const at = power + Math.log10(step)
        if (at >= low && at <= high) all.push({ value: step * 10 ** power, whole: step === 1 })
      }
    return all.length > 1 && room / ((high - low) / Math.log10(2)) < 24 ? all.filter(tick => tick.whole) : all
  }

  // Names of operators above their highest marks and above the roof, where no other name stands; else further up, or not at all.
  function names(marks, top, right, roof) {
    const highest = new Map(), taken = []
    for (const mark of marks) if (!(highest.get(mark.op)?.y <= mark.y)) highest.set(mark.op, mark)
    return [...highest.values()].sort((one, other) => other.y - one.y).map(({ op, x, y }) => {
      const width = 6.4 * op.length, from = Math.max(0, Math.min(x - width / 2, right - width))
      const free = base => !taken.some(box => Math.abs(box.base - base) < 12 && from < box.to && box.from < from + width) &&
        !marks.some(mark => mark.x + 5 > from && mark.x - 5 < from + width && mark.y + 5 > base - 10 && mark.y - 5 < base + 2)
      let base = Math.min(y - 9, roof(from + width) - 4)
      while (base > top && !free(base)) base -= 12
      if (base <= top) return ""
      taken.push({ base, from, to: from + width })
      return `<text class="kl-t kl-t--soft" x="${from}" y="${base}">${op}</text>`
    }).join("")
  }

  // Both slanted roofs, and every case as a mark under its own.
  function roofline(rows, copy, ourCopy, theirs, gpu, width) {
    const left = 48, right = width - 12, top = 26, base = 262
    const dots = rows.filter(({ our }) => our.intensity).flatMap(({ record, our }) => [
      { our, x: our.intensity, y: our.gb * our.intensity / 1e3, mark: round, name: "kl-c0", whose: "ours" },
      { our, x: our.intensity, y: record.gb_per_s * our.intensity / 1e3, mark: square, name: "kl-c1", whose: "yours" }])
      .filter(dot => dot.y > 0 && dot.y < MOST_SPEED)
    if (!dots.length || !copy || !ourCopy) return null
    const xs = dots.map(d => Math.log10(d.x)), ys = dots.map(d => Math.log10(d.y))
    const x0 = Math.min(...xs) - .4, x1 = Math.max(...xs) + .5, y0 = Math.min(...ys) - .3, y1 = Math.max(...ys, x1 + Math.log10(Math.max(copy, ourCopy) / 1e3))
    const x = v => left + (right - left) * (Math.log10(v) - x0) / (x1 - x0), y = v => base - (base - top) * (Math.log10(v) - y0) / (y1 - y0)
    const highest = at => y(10 ** (x0 + (x1 - x0) * (at - left) / (right - left)) * Math.max(copy, ourCopy) / 1e3)
    // A roof ends where the plot does.
    const roof = (rate, name) => {
      const from = Math.max(x0, y0 - Math.log10(rate / 1e3))
      return `<path class="kl-line ${name}" d="M${x(10 ** from)} ${y(10 ** from * rate / 1e3)}L${right} ${y(10 ** x1 * rate / 1e3)}"/>`
    }
    const drawn = dots.map(d => `<path class="kl-own ${d.name}" d="${d.mark(x(d.x), y(d.y))}"><title>${d.our.op} ${shapeText(d.our.shape)} ${d.our.dtype}, ${d.whose}: ${short(d.y)} TFLOP/s</title></path>`)
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
    const says = `Roofline: your copy rate is ${short(copy)} GB/s on ${theirs}, ours is ${short(ourCopy)} GB/s on ${gpu}; ${rows.length} cases under them, listed in the table`
    for (const [name, value] of Object.entries({ class: "kl-svg", role: "img", "aria-label": says, width, height: 306, viewBox: `0 0 ${width} 306` }))
      svg.setAttribute(name, value)
    svg.innerHTML = `<text class="kl-t kl-t--soft" x="${left - 6}" y="12">TFLOP/s</text>` +
      ticks(y0, y1, base - top).map(({ value }) => `<path class="kl-gridline" d="M${left} ${y(value)}H${right}"/><text class="kl-t kl-t--soft kl-t--e" x="${left - 6}" y="${y(value) + 4}">${short(value)}</text>`).join("") +
      `<path class="kl-axisline" d="M${left} ${base}H${right}"/>` +
      ticks(x0, x1, right - left).map(({ value }) => `<path class="kl-axisline" d="M${x(value)} ${base}v4"/><text class="kl-t kl-t--soft kl-t--m" x="${x(value)}" y="${base + 18}">${short(value)}</text>`).join("") +
      roof(ourCopy, "kl-c0") + roof(copy, "kl-c1 kl-dash1") + drawn.join("") + names(dots.map(d => ({ op: d.our.op, x: x(d.x), y: y(d.y) })), top, right, highest) +
      `<text class="kl-t kl-t--m" x="${(left + right) / 2}" y="${base + 38}">operations a byte</text>`
    const words = element("span", { textContent: "Both axes are logarithmic. A slanted line is what a copy in the same run allows; under it every case by its speed." })
    return element("div", { className: "kl-fig--lines" }, legend(theirs, gpu), svg, element("p", { className: "kl-yours__legend" }, words))
  }

  function show(place, documents, data) {
    const gpus = [...new Set(documents.map(each => each.provenance.gpu))], theirs = gpus[0]
    if (gpus.length > 1) throw new Error(`they are of ${gpus.length} GPUs, ${gpus.join(" and ")}; drop those of one`)
    const { rows, others, otherwise } = compared(documents, data.ours)
    const left = others ? ` ${others} of your cases ${others === 1 ? "has" : "have"} no counterpart here.` : ""
    if (!rows.length) {
      const why = otherwise ? ` ${others ? otherwise : "All"} are of other implementations, were measured warm or without a graph, or failed.` : ""
      const none = others || !otherwise ? "none of its cases has the operator, shape and dtype of one of ours" : "none of its cases was measured as ours were"
      return place.replaceChildren(element("p", { textContent: `Your file fits, but ${none}.${left}${why}` }))
    }
    const mean = Math.exp(rows.reduce((a, { record, our }) => a + Math.log(record.median_us / our.us), 0) / rows.length)
    const words = `${rows.length} ${rows.length === 1 ? "case" : "cases"} in common. On ${theirs} ${rows.length === 1 ? "it takes" : "they take"} ${short(mean) === "1" ? "" : `${short(mean)} times `}as long as on ${data.gpu} (geometric mean).${left}`
    const rates = documents.flatMap(each => each.limits.filter(limit => limit.name === "copy" && limit.gb_per_s < MOST_SPEED).map(limit => limit.gb_per_s))
    const copy = rates.reduce((a, b) => Math.max(a, b), 0) // a file may hold more than a call takes arguments
    const picture = roofline(rows, copy, data.copy, theirs, data.gpu, Math.max(300, Math.min(760, place.clientWidth)))
    place.replaceChildren(element("p", {}, element("strong", { textContent: words })), ...(picture ? [picture] : []), table(rows, theirs, data.gpu))
  }

  function make(figure) {
    figure.classList.add("kl-yours--live")
    const data = JSON.parse(figure.querySelector("[data-your-gpu]").dataset.yourGpu)
    const input = element("input", { type: "file", id: "kl-yours", multiple: true, accept: ".json,application/json" })
    const note = element("p", { className: "kl-yours__note" }), place = element("div", { className: "kl-yours__shown" })
    note.setAttribute("role", "status")
    // All of ours, folded while yours are shown.
    const ours = figure.querySelector(".kl-yours__ours"), fold = element("details", { className: "kl-data" }, element("summary", { textContent: `All ${data.ours.length} cases of ours` }))
    const folded = whether => {
      if (whether === fold.contains(ours)) return
      if (!whether) return fold.replaceWith(ours)
      fold.open = false
      ours.replaceWith(fold)
      fold.append(ours)
    }
    let turn = 0
    const take = async files => {
      const mine = ++turn, taken = [], wrong = []
      if (!files.length) wrong.push("Nothing that was dropped is a file. Drop the JSON files that kernel-bench wrote.")
      const bytes = Array.from(files).reduce((sum, file) => sum + file.size, 0), one = files.length === 1
      if (bytes > MOST_BYTES) {
        const who = one ? `${files[0].name} has` : `These ${files.length} files have`
        wrong.push(`${who} ${Math.round(bytes / 1e6)} MB${one ? "; a results file has" : " together; drop"} less than ${MOST_BYTES / 1e6}.`)
      }
      for (const file of bytes > MOST_BYTES ? [] : files)
        try { taken.push(await documentOf(file, data.schema)) } catch (error) { wrong.push(error.message) }
      if (mine !== turn) return // other files were dropped in the meantime
      try {
        taken.length ? show(place, taken, data) : place.replaceChildren()
      } catch (error) {
        place.replaceChildren() // never an old table beside new files
        wrong.push(`These files cannot be drawn: ${error.message}.`)
      }
      folded(Boolean(place.querySelector("table")))
      note.textContent = wrong.join(" ")
    }
    const drop = element("div", { className: "kl-yours__drop" }, element("label", { htmlFor: "kl-yours", textContent: "Results of your GPU: choose the files, or drop them here" }), input)
    input.addEventListener("change", () => input.files.length && take(input.files))
    input.addEventListener("click", () => { input.value = "" }) // else a file that was measured anew, chosen again, is no change
    // Anywhere on the page: a file that misses the field would take the page's place in the browser.
    for (const name of ["dragover", "dragleave", "drop"])
      document.addEventListener(name, event => {
        if (!drop.isConnected) return
        event.preventDefault()
        drop.classList.toggle("kl-yours__drop--over", name === "dragover")
        if (name === "drop") take(event.dataTransfer.files)
      })
    figure.prepend(drop, note, place)
  }

  window.klYours = { misfit } // for tests
  klFigures("figure.kl-fig--yours:not(.kl-yours--live)", "kl-reads", make) // see early.js
})()
