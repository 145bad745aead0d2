// A link that keeps what the reader has set in a figure: #roofline:m=16;n=4096. Whoever opens it finds the same there.
(() => {
  "use strict"
  const taken = new Map()

  // What an address says of one figure, by name; null where it is about something else.
  function said(name) {
    const [place, words] = location.hash.slice(1).split(":")
    if (place !== name || !words) return null
    try {
      return Object.fromEntries(words.split(";").map(pair => pair.split("=").map(decodeURIComponent)))
    } catch {
      return null // no address of ours
    }
  }

  // `name` says which figure of the page it is, `read` gives what is set, `take` gets the same as words, and leaves out what
  // the figure does not have. The link is called again by its `renew` when the reader has set something.
  window.klLink = (figure, name, read, take) => {
    let own = name
    for (let n = 2; taken.has(own) && taken.get(own).isConnected; n++) own = `${name}-${n}`
    taken.set(own, figure)
    const link = klElement("a", { className: "kl-link", textContent: "Link to this", href: "#" })
    const done = klElement("span", { className: "kl-link__done", role: "status" })
    const open = () => {
      const given = said(own)
      if (!given) return
      take(given)
      figure.scrollIntoView() // no element has such an id
    }
    link.addEventListener("click", async event => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
      event.preventDefault()
      history.replaceState(history.state, "", link.href)
      let copied = true
      try { await navigator.clipboard.writeText(link.href) } catch { copied = false } // from disk, say
      done.textContent = copied ? "Copied." : "The page's address keeps it now."
    })
    addEventListener("hashchange", open)
    const given = said(own)
    if (given) take(given)
    if (given) addEventListener("load", () => figure.scrollIntoView(), { once: true })
    const renew = () => {
      const words = Object.entries(read()).map(pair => pair.map(encodeURIComponent).join("=")).join(";")
      link.setAttribute("href", `#${own}:${words}`)
      done.textContent = ""
    }
    renew()
    return { box: klElement("span", { className: "kl-link__box" }, done, link), renew }
  }

  // A link of the text may show something in a figure: [thread 0](#heading){ data-shows="walk:step=6;thread=0" }. Without
  // this script it leads to the heading.
  document.addEventListener("click", event => {
    const link = event.target instanceof Element && event.target.closest("a[data-shows]")
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    if (location.hash === `#${link.dataset.shows}`) dispatchEvent(new HashChangeEvent("hashchange"))
    else location.hash = link.dataset.shows
  })
})()
