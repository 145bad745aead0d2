// In a page that was opened from disk, a browser starts no worker from a file. The search asks for one, so a hidden frame
// stands in for it: it loads the worker's script, and messages go in and out as they would. Only the offline bundle
// loads this.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.title = "Search"
      document.body.append(this.frame)
      const inside = this.frame.contentWindow, script = this.frame.contentDocument.createElement("script")
      inside.postMessage = data => setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })))
      script.src = address
      script.onload = () => {
        this.give = data => inside.dispatchEvent(new inside.MessageEvent("message", { data }))
        this.waiting.forEach(this.give)
      }
      script.onerror = () => this.dispatchEvent(new ErrorEvent("error", { message: `${address} cannot be read` }))
      this.frame.contentDocument.head.append(script)
    }

    postMessage(data) { this.give ? this.give(data) : this.waiting.push(data) }
    terminate() { this.frame.remove() }
  }
  window.Worker = window.IFrameWorker
}
