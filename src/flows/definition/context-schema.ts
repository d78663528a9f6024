import type { z } from 'zod'
import type { FlowContext } from './flow-context.ts'

/** The context of the parse that runs, for which Zod has no parameter. A parse is synchronous. */
let running: FlowContext | undefined

function required(): FlowContext {
  if (!running) throw new Error('a schema of references is used by its `within` only')
  return running
}

const contextOfParse: FlowContext = {
  get env() {
    return required().env
  },
  get readFile() {
    return required().readFile
  },
  get mail() {
    return required().mail
  },
  get own() {
    return required().own
  },
}

/**
 * A schema whose texts may refer to variables and files. It is built once, at its first use: that takes 20 ms for a flow, and
 * the first parse compiles it.
 */
export function contextSchema<S extends z.ZodType>(build: (context: FlowContext) => S) {
  let built: S | undefined
  const schema = () => {
    built ??= build(contextOfParse)
    return built
  }
  return {
    /** For what needs no parse, such as its JSON Schema. */
    schema,
    /** The schema with the references of `context`. */
    within: (context: FlowContext): Pick<S, 'parse' | 'safeParse'> => {
      const inContext = <T>(parse: () => T): T => {
        const outer = running
        running = context
        try {
          return parse()
        } finally {
          running = outer
        }
      }
      return {
        parse: (...args) => inContext(() => schema().parse(...args)),
        safeParse: (...args) => inContext(() => schema().safeParse(...args)),
      } as Pick<S, 'parse' | 'safeParse'>
    },
  }
}
