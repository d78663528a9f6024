/**
 * What is shown once and cannot be had again: keys and links, kept in the memory of one session until somebody says that he
 * has stored them. Neither Esc nor a click beside it nor another view loses them; leaving the page asks first.
 */
const kept = new WeakMap()

/** What is kept in this session, the newest first: `{ kind: 'key' | 'link', client, value, … }`. */
export function keptBy(app) {
  return kept.get(app) ?? []
}

export function keep(app, secret) {
  kept.set(app, [secret, ...keptBy(app)])
  addEventListener('beforeunload', askBeforeLeaving)
  app.redraw()
}

export function letGo(app, secret) {
  kept.set(
    app,
    keptBy(app).filter((one) => one !== secret),
  )
  if (keptBy(app).length === 0) forgetAll()
  app.redraw()
}

/** For the end of a session: what it kept goes with it. */
export function forgetAll() {
  removeEventListener('beforeunload', askBeforeLeaving)
}

function askBeforeLeaving(event) {
  event.preventDefault()
}
