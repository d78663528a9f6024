/** Work of several owners, who take turns. */
export type FairQueue<Task> = {
  readonly isEmpty: boolean
  add(owner: object, task: Task): void
  /** The first task of the owner whose turn it is. */
  take(): Task | undefined
}

/** However much one owner adds, another one waits for one task of each at most. */
export function createFairQueue<Task>(): FairQueue<Task> {
  /** In the order of their turns. */
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
