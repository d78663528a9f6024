/** A queue that serves its owners in turn. */
type FairQueue<Task> = {
  readonly isEmpty: boolean
  add(owner: object, task: Task): void
  /** The first task of the next owner. */
  take(): Task | undefined
}

/** An owner waits for at most one task of each other owner, however many they have. */
export function createFairQueue<Task>(): FairQueue<Task> {
  /** Ordered by their next turn. */
  const owners = new Map<object, Task[]>()
  return {
    get isEmpty() {
      return owners.size === 0
    },
    add(owner, task) {
      const tasks = owners.get(owner)
      if (tasks) tasks.push(task)
      else owners.set(owner, [task])
    },
    take() {
      const [first] = owners
      if (!first) return undefined
      const [owner, tasks] = first
      const task = tasks.shift()
      owners.delete(owner)
      if (tasks.length > 0) owners.set(owner, tasks)
      return task
    },
  }
}
