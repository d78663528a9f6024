import { collectDefaultMetrics, Registry } from 'prom-client'

let own: Registry | undefined

/**
 * What Prometheus expects of any Node process: memory, processor time, delays of the event loop. It is the process's own, so
 * there is one of it, and it measures from the first scrape on: who scrapes nothing pays nothing.
 */
export function processMetrics(): Registry {
  if (!own) {
    own = new Registry()
    collectDefaultMetrics({ register: own })
  }
  return own
}
