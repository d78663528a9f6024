/** What is not seen first: comes as a part of its own, once the first view is there. */
import { createActivity as activity } from './views/activity.js'
import { createClients as clients } from './views/clients.js'
import { createClosings as closings } from './views/closings.js'
import { createOrder as order } from './views/order.js'
import { createStores as stores } from './views/stores.js'
import { createWebhooks as webhooks } from './views/webhooks.js'

export const laterViews = { activity, clients, closings, order, stores, webhooks }
