/** What is not seen first: comes as a part of its own, once the first view is there. */
import { createAccount as account } from './views/account.js'
import { createActivity as activity } from './views/activity.js'
import { createClients as clients } from './views/clients.js'
import { createClosings as closings } from './views/closings.js'
import { createOrder as order } from './views/order.js'
import { createPeople as people } from './views/people.js'
import { createStores as stores } from './views/stores.js'
import { createTrend as trend } from './views/trend.js'
import { createWebhooks as webhooks } from './views/webhooks.js'

export const laterViews = {
  account,
  activity,
  people,
  clients,
  closings,
  order,
  stores,
  trend,
  webhooks,
}
