import { collectDefaultMetrics, Registry } from 'prom-client'

let own: Registry | undefined

/**
 * The standard metrics of a Node process: memory, processor time, delays of the event loop. One registry a process. It
 * measures from the first scrape on, so without scrapes it costs nothing.
 */
export function processMetrics(): Registry {
  if (!own) {
    own = new Registry()
    collectDefaultMetrics({ register: own })
  }
  return own
}
