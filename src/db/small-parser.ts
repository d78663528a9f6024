import { setFlagsFromString } from 'node:v8'
import { type PGlite, protocol } from '@electric-sql/pglite'

const { serialize } = protocol

/** A function that V8's first compiler makes meanwhile is never given to the second; 0 is an import, so none is meant. */
const asFirstCompiled = '--wasm-tier-up-filter=0'
const asUsual = '--wasm-tier-up-filter=-1'

/** From here on this process runs WebAssembly as V8's first compiler makes it: half the memory, for work that is short. */
export function compileOnce(): void {
  setFlagsFromString(asFirstCompiled)
}

/**
 * Has V8 never compile the parser of an embedded database a second time: after a few statements it did, one function of 105 KB
 * that takes 600 MB for a second, more than the service and all the rest of the database. Statements are prepared, so
 * few are parsed. Whether V8 counts how much a function runs is decided when it compiles it first, which it does when it is first
 * called; so the first thing that is parsed is an empty statement, and all but the parser and its scanner goes on as ever. A
 * version of V8 that does not know the option goes on as before.
 *
 * @param pglite just made, before it is ready: the first statements are its own.
 */
export function keepParserSmall(pglite: PGlite): void {
  pglite.execProtocolRawSync = (message) => {
    // Its class's own again.
    Reflect.deleteProperty(pglite, 'execProtocolRawSync')
    // What reads and answers messages is called here for the first time.
    pglite.execProtocolRawSync(serialize.sync())
    setFlagsFromString(asFirstCompiled)
    try {
      pglite.execProtocolRawSync(serialize.query(';'))
    } finally {
      setFlagsFromString(asUsual)
    }
    return pglite.execProtocolRawSync(message)
  }
}
