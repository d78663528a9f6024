/** Where the service lies below its host: a proxy may put a path before all of ours. Scripts are one folder deep. */
const publicPath = new URL('..', import.meta.url).pathname.replace(/\/$/, '')

/** The address of a path of this page's own listener, such as `/orders`. */
export function addressOf(path) {
  return new URL(`${publicPath}${path}`, location.origin)
}
