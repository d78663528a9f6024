const pageLimit = 200
/** Beyond this many orders the sums are told to be of the newest ones only. */
const pagesAtMost = 25
const wholeEveryMs = 60_000

/**
 * The orders of a day, kept up to date. The service has no sums, so they are counted here: each look reads the newest
 * page, and the older pages once a minute, which is when a refund of an older sale shows up in a day of over 200 sales.
 */
export function createDay(app) {
  let asked
  let wholeAt = 0
  let known = new Map()

  return {
    /** `{ orders, total }` since `from`; `orders` may be fewer than `total`. */
    async read(from, signal) {
      const question = `${from} ${app.client ?? ''}`
      const isWhole = question !== asked || Date.now() - wholeAt > wholeEveryMs
      const orders = isWhole ? new Map() : new Map(known)
      let total = 0
      for (let page = 0; page < (isWhole ? pagesAtMost : 1); page += 1) {
        const answer = await app.getOrders(
          { from, limit: pageLimit, offset: page * pageLimit },
          signal,
        )
        for (const order of answer.orders) orders.set(order.order_id, order)
        total = answer.total
        if (answer.orders.length < pageLimit) break
      }
      if (isWhole) wholeAt = Date.now()
      asked = question
      known = orders
      return { orders: [...orders.values()], total }
    },
  }
}
