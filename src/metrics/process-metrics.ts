import { collectDefaultMetrics, Registry } from 'prom-client'

let own: Registry | undefined

/**
 * Prometheus' standard metrics of a Node process: memory, processor time, delays of the event loop. There is one
 * registry per process. It measures from the first scrape on, so without scrapes it costs nothing.
 */
export function processMetrics(): Registry {
  if (!own) {
    own = new Registry()
    collectDefaultMetrics({ register: own })
  }
  return own
}
