import nock from 'nock'
import { afterAll, afterEach, beforeAll } from 'vitest'

// Importing nock patches net.connect, in a file whose tests are all skipped too. Files share a worker: left so, the raw
// sockets of a later file would never reach their server.
nock.restore()

/** Patches the network for the tests of this suite only. */
export function useNock(): void {
  beforeAll(() => nock.activate())
  afterEach(() => nock.cleanAll())
  afterAll(() => nock.restore())
}

export default nock
