// Live reload, in development only: shows in this tab what has changed on disk (docs/live-reload.md).
(() => {
  const { dataset } = document.currentScript
  if (window.pacelineLiveReload) return
  window.pacelineLiveReload = true
  let events, last, overlay, mustReload, work = Promise.resolve()

  // A tab in the background has no stream: by HTTP/1.1 browsers open six connections to a host. It catches up later.
  function connect() {
    if (document.hidden) return disconnect()
    if (events) return
    events = new EventSource("/.paceline/live-reload?" + (last ? `since=${last}` : `age=${Math.round(performance.now())}`))
    events.onmessage = ({ lastEventId, data }) => {
      last = lastEventId
      if (data !== "nothing") work = work.then(() => update(data)).catch(error => console.warn("Live reload:", error))
    }
    events.onerror = () => {
      if (events?.readyState !== EventSource.CLOSED) return
      disconnect()
      setTimeout(connect, 1000)
    }
  }
  function disconnect() {
    events?.close()
    events = null
  }

  async function update(changed) {
    const isPage = changed.includes("page")
    // Vite has its own.
    if (!isPage && document.querySelector('script[src*="@vite/client"]')) return
    if (changed.includes("scripts") || "error" in dataset) return location.reload()
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" })
    const html = await answer.text()
    overlay?.remove()
    if (!answer.ok) return show(html)
    const page = new DOMParser().parseFromString(html, "text/html")
    if (answer.redirected || [...page.scripts].some(isNew)) return location.reload()
    styles(page, changed.includes("styles"))
    if (isPage) {
      document.title = page.title
      morph(document.body, page.body)
    }
    if (mustReload) return location.reload()
    document.dispatchEvent(new CustomEvent("paceline:reload", { detail: changed }))
  }

  const isNew = ({ src, type, text }) => ![...document.scripts].some(one =>
    src ? one.src === src : type !== "importmap" || one.text === text)

  // An error covers the page, which keeps what was typed into it.
  function show(html) {
    overlay = document.createElement("iframe")
    overlay.srcdoc = html
    overlay.style = "position:fixed;inset:0;width:100%;height:100%;border:0;z-index:2147483647;background:Canvas"
    // The policy of this page holds in there, too: without its styles an error is better shown alone.
    overlay.onload = ({ target }) => {
      if ([...target.contentDocument.querySelectorAll("style")].some(style => !style.sheet)) location.reload()
    }
    document.documentElement.append(overlay)
  }

  function styles(page, all) {
    const links = root => [...root.querySelectorAll("link[rel=stylesheet]")]
    const href = link => link.dataset.live || link.getAttribute("href")
    const name = link => new URL(href(link), location).pathname.replace(/-[0-9a-f]{7,}(?=\.\w+$)/, "")
    const olds = links(document)
    for (const link of links(page)) {
      const old = olds.find(one => name(one) === name(link)), from = href(link)
      if (old && !all && href(old) === from) continue
      const fresh = document.importNode(link)
      fresh.dataset.live = from
      fresh.href = from + (from.includes("?") ? "&" : "?") + "live=" + Date.now()
      fresh.onload = () => old?.remove()
      old ? old.after(fresh) : document.head.append(fresh)
    }
  }

  // Makes `from` what `to` is, and keeps the elements that both have: with focus, what was typed, scroll positions.
  function morph(from, to) {
    const kind = from.nodeName
    if (from.isEqualNode(to) || from.isContentEditable || from.dataset?.turboPermanent != null || kind === "LINK") return
    if (from.nodeType !== 1) return from.data = to.data
    if (kind === "SCRIPT") return mustReload ||= from.text !== to.text
    if (kind === "TEMPLATE") return from.innerHTML = to.innerHTML
    if (kind === "TURBO-FRAME" && from.src) return from.reload?.()
    for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value)
    for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name)
    const nodes = [...to.childNodes]
    let old = from.firstChild
    nodes.forEach((node, at) => {
      while (old && !nodes.slice(at).some(later => fits(old, later))) old = drop(old)
      if (!old || !fits(old, node)) return from.insertBefore(document.importNode(node, true), old)
      const next = old.nextSibling
      morph(old, node)
      old = next
    })
    while (old) old = drop(old)
  }
  const fits = (a, b) => a.nodeName === b.nodeName &&
    ["id", "name", "type"].every(key => a.getAttribute?.(key) === b.getAttribute?.(key))
  function drop(node) {
    const next = node.nextSibling
    node.remove()
    return next
  }

  document.addEventListener("visibilitychange", connect)
  connect()
})()
