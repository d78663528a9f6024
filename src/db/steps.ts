/** Runs one statement or transaction of long work. A job that runs beside requests pauses after each. */
export type Step = <T>(work: () => Promise<T>) => Promise<T>

/** Steps without a pause. */
export const atOnce: Step = (work) => work()
