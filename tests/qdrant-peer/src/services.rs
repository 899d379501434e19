//! The four services of the wire, each method handed to its function on a thread that may block.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::collections_server::Collections;
use qdrant_client::qdrant::points_server::Points;
use qdrant_client::qdrant::qdrant_server::Qdrant;
use qdrant_client::qdrant::snapshots_server::Snapshots;
use tonic::{Request, Response, Status};

use crate::error::{Answer, internal, unsupported};
use crate::methods::{collections, reads, search, snapshots, writes};
use crate::store::Store;

type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send + 'a>>;

/// All services of one peer.
#[derive(Debug, Clone)]
pub(crate) struct Services(pub(crate) Arc<Store>);

async fn run<Q, R>(
    store: Arc<Store>,
    request: Q,
    method: fn(&Store, Q) -> Answer<R>,
) -> Result<Response<R>, Status>
where
    Q: Send + 'static,
    R: Send + 'static,
{
    tokio::task::spawn_blocking(move || method(&store, request))
        .await
        .map_err(internal)?
        .map(Response::new)
}

/// Methods of a service trait, in the form `async_trait` gives them.
macro_rules! methods {
    ($($name:ident($request:ident) -> $response:ident = $method:expr;)*) => {$(
        fn $name<'life0, 'async_trait>(
            &'life0 self,
            request: Request<grpc::$request>,
        ) -> Reply<'async_trait, grpc::$response>
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(run(Arc::clone(&self.0), request.into_inner(), $method))
        }
    )*};
}

/// Methods that answer `Unimplemented`.
macro_rules! missing {
    ($($name:ident($request:ident) -> $response:ident;)*) => {
        methods! {$(
            $name($request) -> $response = |_, _| Err(unsupported(concat!("the method ", stringify!($name))));
        )*}
    };
}

impl Qdrant for Services {
    methods! {
        health_check(HealthCheckRequest) -> HealthCheckReply = health;
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the form of every method")]
fn health(store: &Store, _: grpc::HealthCheckRequest) -> Answer<grpc::HealthCheckReply> {
    Ok(grpc::HealthCheckReply {
        title: "qdrant - vector search engine".to_owned(),
        version: store.settings.version.clone(),
        commit: None,
    })
}

impl Collections for Services {
    methods! {
        get(GetCollectionInfoRequest) -> GetCollectionInfoResponse = collections::get;
        list(ListCollectionsRequest) -> ListCollectionsResponse = collections::list;
        create(CreateCollection) -> CollectionOperationResponse = collections::create;
        update(UpdateCollection) -> CollectionOperationResponse = collections::update;
        delete(DeleteCollection) -> CollectionOperationResponse = collections::delete;
        collection_exists(CollectionExistsRequest) -> CollectionExistsResponse = collections::exists;
        update_aliases(ChangeAliases) -> CollectionOperationResponse = collections::update_aliases;
        list_aliases(ListAliasesRequest) -> ListAliasesResponse = collections::list_aliases;
        list_collection_aliases(ListCollectionAliasesRequest) -> ListAliasesResponse =
            collections::list_collection_aliases;
    }
    missing! {
        collection_cluster_info(CollectionClusterInfoRequest) -> CollectionClusterInfoResponse;
        update_collection_cluster_setup(UpdateCollectionClusterSetupRequest)
            -> UpdateCollectionClusterSetupResponse;
        create_shard_key(CreateShardKeyRequest) -> CreateShardKeyResponse;
        delete_shard_key(DeleteShardKeyRequest) -> DeleteShardKeyResponse;
        list_shard_keys(ListShardKeysRequest) -> ListShardKeysResponse;
    }
}

impl Points for Services {
    methods! {
        upsert(UpsertPoints) -> PointsOperationResponse = writes::upsert;
        delete(DeletePoints) -> PointsOperationResponse = writes::delete;
        get(GetPoints) -> GetResponse = reads::get;
        update_vectors(UpdatePointVectors) -> PointsOperationResponse = writes::update_vectors;
        delete_vectors(DeletePointVectors) -> PointsOperationResponse = writes::delete_vectors;
        set_payload(SetPayloadPoints) -> PointsOperationResponse = writes::set_payload;
        overwrite_payload(SetPayloadPoints) -> PointsOperationResponse = writes::overwrite_payload;
        delete_payload(DeletePayloadPoints) -> PointsOperationResponse = writes::delete_payload;
        clear_payload(ClearPayloadPoints) -> PointsOperationResponse = writes::clear_payload;
        create_field_index(CreateFieldIndexCollection) -> PointsOperationResponse = writes::create_field_index;
        delete_field_index(DeleteFieldIndexCollection) -> PointsOperationResponse = writes::delete_field_index;
        update_batch(UpdateBatchPoints) -> UpdateBatchResponse = writes::update_batch;
        scroll(ScrollPoints) -> ScrollResponse = reads::scroll;
        count(CountPoints) -> CountResponse = reads::count;
        facet(FacetCounts) -> FacetResponse = reads::facet;
        search(SearchPoints) -> SearchResponse = search::search;
        search_batch(SearchBatchPoints) -> SearchBatchResponse = search::search_batch;
        query(QueryPoints) -> QueryResponse = search::query;
        query_batch(QueryBatchPoints) -> QueryBatchResponse = search::query_batch;
    }
    missing! {
        create_vector_name(CreateVectorNameRequest) -> PointsOperationResponse;
        delete_vector_name(DeleteVectorNameRequest) -> PointsOperationResponse;
        search_groups(SearchPointGroups) -> SearchGroupsResponse;
        recommend(RecommendPoints) -> RecommendResponse;
        recommend_batch(RecommendBatchPoints) -> RecommendBatchResponse;
        recommend_groups(RecommendPointGroups) -> RecommendGroupsResponse;
        discover(DiscoverPoints) -> DiscoverResponse;
        discover_batch(DiscoverBatchPoints) -> DiscoverBatchResponse;
        query_groups(QueryPointGroups) -> QueryGroupsResponse;
        search_matrix_pairs(SearchMatrixPoints) -> SearchMatrixPairsResponse;
        search_matrix_offsets(SearchMatrixPoints) -> SearchMatrixOffsetsResponse;
    }
}

impl Snapshots for Services {
    methods! {
        create(CreateSnapshotRequest) -> CreateSnapshotResponse = snapshots::create;
        list(ListSnapshotsRequest) -> ListSnapshotsResponse = snapshots::list;
        delete(DeleteSnapshotRequest) -> DeleteSnapshotResponse = snapshots::delete;
    }
    missing! {
        create_full(CreateFullSnapshotRequest) -> CreateSnapshotResponse;
        list_full(ListFullSnapshotsRequest) -> ListSnapshotsResponse;
        delete_full(DeleteFullSnapshotRequest) -> DeleteSnapshotResponse;
    }
}
